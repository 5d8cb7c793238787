import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { clientID } from '../api/client';
import { asProblem } from '../api/problem';
import { useConnection } from '../app/connection';
import { t } from '../app/strings';
import { plain } from '../session/text';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { TextArea } from '../ui/Field';
import { RelativeTime } from '../ui/Time';
import s from './change.module.css';
import { act, type ChangePageData } from './model';
import { w } from './words';

type What = 'approve' | 'merge' | 'hand-back';

/** What this person may do with the change now. Each act is asked again, with what it means; no key does it alone. */
export function Decide({ id, page }: { id: string; page: ChangePageData }) {
  const [asked, ask] = useState<What>();
  const offline = useConnection().state === 'lost';
  const { change, me } = page;
  const may = (what: string) => page.actions.includes(what);
  const blocked = (what: string, why = '') =>
    offline ? t.connection.waitEffects : !may(what) && (plain(why) || w.notNow);
  return (
    <section aria-label={w.decide} className={s.decide}>
      {page.approvals.map((a) => (
        <p key={`${a.by.handle} ${a.head}`} className={s.facts}>
          <span>{w.approvedBy(plain(a.by.name || a.by.handle))}</span>
          <code>{a.head.slice(0, 10)}</code>
          <RelativeTime time={a.created} />
          {a.note && <span>{plain(a.note)}</span>}
        </p>
      ))}
      {change.merge && <p>{w.merged(change.merge.slice(0, 10))}</p>}
      {change.state === 'open' && (
        <>
          <div className={s.buttons}>
            <Button blocked={blocked('approve', me.why_not)} onClick={() => ask('approve')}>
              {w.approve}
            </Button>
            <Button kind="primary" blocked={blocked('merge', me.why_not_merge)} onClick={() => ask('merge')}>
              {w.merge}
            </Button>
            {may('hand_back') && (
              <Button blocked={blocked('hand_back')} onClick={() => ask('hand-back')}>
                {w.handBack}
              </Button>
            )}
          </div>
          {!may('approve') && me.why_not && <p className={s.quiet}>{plain(me.why_not)}</p>}
          {!may('merge') && me.why_not_merge && <p className={s.quiet}>{plain(me.why_not_merge)}</p>}
        </>
      )}
      {asked && <Confirm id={id} page={page} what={asked} onClose={() => ask(undefined)} />}
    </section>
  );
}

function Confirm(props: { id: string; page: ChangePageData; what: What; onClose: () => void }) {
  const { id, page, what, onClose } = props;
  const queries = useQueryClient();
  const [note, setNote] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const [key] = useState(clientID);
  const { change } = page;
  const back = what === 'hand-back';
  const title = { approve: w.approveTitle, merge: w.mergeTitle, 'hand-back': w.handBackTitle }[what];
  const text = {
    approve: w.approveText(change.head.slice(0, 10)),
    merge: w.mergeText(plain(change.branch), plain(change.base)),
    'hand-back': w.handBackText,
  }[what];
  const go = async () => {
    setBusy(true);
    setProblem('');
    try {
      await act(id, what, back ? { note, client_id: key } : { head: change.head });
      await queries.invalidateQueries({ queryKey: ['change', id] });
      onClose();
    } catch (error) {
      const p = asProblem(error);
      setProblem(p.hint ? `${p.message} ${p.hint}` : p.message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      firm
      title={title}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{w.cancel}</Button>
          <Button
            kind="primary"
            busy={busy}
            blocked={back && note.trim() === '' && w.noteMissing}
            onClick={() => void go()}
          >
            {{ approve: w.approve, merge: w.merge, 'hand-back': w.handBack }[what]}
          </Button>
        </>
      }
    >
      <p>{text}</p>
      {back && <TextArea label={w.note} value={note} onChange={(e) => setNote(e.currentTarget.value)} rows={4} />}
      {problem && (
        <p role="alert" className={s.badText}>
          {problem}
        </p>
      )}
    </Dialog>
  );
}
