import { type KeyboardEvent, useRef, useState } from 'react';
import { live } from '../data/live';
import { isRunning } from '../data/turns';
import { fields, str } from '../data/wire';
import { Button } from '../ui/Button';
import s from './composer.module.css';
import { useHere, useShown } from './hooks';
import { setTyping } from './presence';
import { Queue } from './Queue';
import { w } from './words';

/** Where a person writes. What is typed stays, whatever happens to the page. */
export function Composer({ onSent }: { onSent: () => void }) {
  const { session } = useHere();
  const shown = useShown(session);
  const { drafts, outbox } = live();
  const [text, setText] = useState(() => drafts.get(session.id));
  const field = useRef<HTMLTextAreaElement>(null);
  const archived = str(fields(shown.page.session), 'state') === 'archived';
  const last = shown.turns.at(-1);
  const turn = last ? session.turn(last) : undefined;
  const busy = turn !== undefined && isRunning(turn);

  const put = (value: string) => {
    setText(value);
    drafts.set(session.id, value);
    setTyping(value !== '');
  };
  const send = () => {
    const said = text.trim();
    if (!said || archived) return;
    outbox.send(session.id, said);
    put('');
    onSent();
    // Back to the field, unless the person has gone elsewhere by now.
    if (
      !document.activeElement ||
      document.activeElement === document.body ||
      field.current?.form?.contains(document.activeElement)
    )
      field.current?.focus();
  };
  const key = (e: KeyboardEvent<HTMLTextAreaElement>) => {
    if (e.nativeEvent.isComposing) return;
    if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
      e.preventDefault();
      send();
    } else if (e.key === 'Escape') {
      e.preventDefault();
      field.current?.blur();
      document.querySelector<HTMLElement>('[data-scroller]')?.focus({ preventScroll: true });
    }
  };
  return (
    <div className={s.area} data-region="">
      <div className={s.inner}>
        <Queue
          onEdit={(old) => {
            put(text ? `${old}\n\n${text}` : old);
            field.current?.focus();
          }}
        />
        {archived ? (
          <p className={s.note}>{w.archived}</p>
        ) : (
          <form
            className={s.form}
            onSubmit={(e) => {
              e.preventDefault();
              send();
            }}
          >
            <textarea
              ref={field}
              className={s.field}
              data-composer=""
              aria-label={w.composer}
              placeholder={w.composer}
              title={w.composerHint}
              rows={1}
              maxLength={262_144}
              value={text}
              onChange={(e) => put(e.target.value)}
              onKeyDown={key}
            />
            <Button type="submit" kind="primary" blocked={!text.trim() && w.composer}>
              {busy ? w.queueIt : w.send}
            </Button>
          </form>
        )}
      </div>
    </div>
  );
}
