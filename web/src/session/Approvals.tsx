import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { asProblem } from '../api/problem';
import { useConnection } from '../app/connection';
import { absolute } from '../app/format';
import { t } from '../app/strings';
import { type Fields, fields, list, str } from '../data/wire';
import { Button } from '../ui/Button';
import { ErrorState } from '../ui/ErrorState';
import { Input } from '../ui/Field';
import { answerApproval } from './effects';
import { useHere } from './hooks';
import s from './inspector.module.css';
import { plain, visible } from './text';
import { w } from './words';

/** The questions that this session asks people now. An answer must be seen to count, so none is given while offline. */
export function Approvals({ seq }: { seq: number }) {
  const { session } = useHere();
  const asked = useQuery({
    queryKey: ['approvals', session.id, seq],
    queryFn: ({ signal }) =>
      call<Record<string, unknown>>('/approvals', { query: { session: session.id, state: 'pending' }, signal }),
    placeholderData: keepPreviousData,
  });
  if (asked.error) {
    return (
      <ErrorState
        title={t.errors.what(w.needsYou)}
        problem={asProblem(asked.error)}
        retry={() => void asked.refetch()}
      />
    );
  }
  return list(fields(asked.data), 'items').map((v) => <Approval key={str(fields(v), 'id')} of={fields(v)} />);
}

function Approval({ of }: { of: Fields }) {
  const { session, me } = useHere();
  const queries = useQueryClient();
  const [note, setNote] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const offline = useConnection().state === 'lost';
  const own = str(of, 'asked_by') === me && me !== '';
  const answer = async (yes: boolean) => {
    setBusy(true);
    setProblem(await answerApproval(session, str(of, 'id'), yes, note));
    setBusy(false);
    await queries.invalidateQueries({ queryKey: ['approvals', session.id] });
  };
  const blocked = own ? w.someoneElse : offline && t.connection.waitEffects;
  return (
    <div className={s.card}>
      <p className={s.question}>{visible(str(of, 'question'))}</p>
      <Detail of={of} />
      <p className={s.quiet}>{w.askedBy(plain(str(of, 'asked_by')))}</p>
      {str(of, 'deadline') && <p className={s.quiet}>{w.answerBy(absolute(Date.parse(str(of, 'deadline'))))}</p>}
      {own && <p>{w.someoneElse}</p>}
      <Input label={w.reason} value={note} onChange={(e) => setNote(e.target.value)} error={problem || undefined} />
      <div className={s.ways}>
        <Button busy={busy} blocked={blocked} onClick={() => void answer(false)}>
          {w.deny}
        </Button>
        <Button kind="primary" busy={busy} blocked={blocked} onClick={() => void answer(true)}>
          {w.approve}
        </Button>
      </div>
    </div>
  );
}

/** The exact command or host, as the package that asks wrote it down. */
function Detail({ of }: { of: Fields }) {
  const detail = of.detail;
  if (detail === undefined || detail === null || detail === '') return null;
  const text = typeof detail === 'string' ? detail : JSON.stringify(detail, null, 2);
  return <pre className={s.detail}>{visible(text.slice(0, 4000))}</pre>;
}
