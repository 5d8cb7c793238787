import { ChevronRight } from 'lucide-react';
import { memo, useEffect, useState } from 'react';
import { duration, money } from '../app/format';
import { HEAD, isRunning, type Turn } from '../data/turns';
import { called, type Fields, fields, num, str, strings } from '../data/wire';
import { Avatar } from '../ui/Avatar';
import { Button } from '../ui/Button';
import { useNow } from '../ui/clock';
import { cx } from '../ui/cx';
import { RelativeTime } from '../ui/Time';
import { wholePrompts } from './effects';
import { useEvent, useHere, useLiveText, useShown, useTurn } from './hooks';
import { Markdown } from './Markdown';
import { toneOf } from './rowViews';
import { plain, visible } from './text';
import s from './turn.module.css';
import { w } from './words';

// What stands of a turn when it is folded: who asked what, one line of what it took, the answer, the outcome.

const LONG = 1200;

export const PromptView = memo(function PromptView({ id }: { id: string }) {
  const { session } = useHere();
  const turn = useTurn(id);
  const [all, setAll] = useState(false);
  if (!turn) return null;
  const text = session.prompts.get(id)?.text || turn.text;
  // A turn knows the head of its prompt; the whole is asked for when it is opened.
  const head = text.length >= HEAD && text === turn.text && turn.end > 0;
  const long = text.length > LONG || head;
  const open = () => {
    if (!all && head) void wholePrompts(session).then(() => setAll(true));
    else setAll(!all);
  };
  return (
    <div className={s.prompt}>
      <div className={s.who}>
        <Avatar person={turn.author} size="small" />
        <span className={s.name}>{called(turn.author)}</span>
        {turn.source && turn.source !== 'web' && turn.source !== 'api' && (
          <span>{w.by(plain(turn.source.replace(/:.*/, '')))}</span>
        )}
        {turn.started && <RelativeTime time={turn.started} />}
      </div>
      <div className={s.box}>
        {visible(long && !all ? `${text.slice(0, LONG)} …` : text)}
        {long && (
          <div>
            <Button size="small" kind="quiet" onClick={open}>
              {all ? w.fold : w.open}
            </Button>
          </div>
        )}
      </div>
    </div>
  );
});

export const SummaryView = memo(function SummaryView({ id, open }: { id: string; open: boolean }) {
  const { folds } = useHere();
  const turn = useTurn(id);
  if (!turn) return null;
  return (
    <button type="button" className={s.summary} aria-expanded={open} onClick={() => folds.setTurn(id, !open)}>
      <ChevronRight size={14} aria-hidden="true" className={cx(s.sign, open && s.turned)} />
      <span className={s.main}>{isRunning(turn) ? <Running turn={turn} /> : ended(turn)}</span>
      {turn.tools > 0 && <span>{w.tools(turn.tools)}</span>}
      {turn.errors > 0 && <span className={cx(turn.state === 'failed' && s.bad)}>{w.failedTools(turn.errors)}</span>}
      {turn.files > 0 && <span>{w.files(turn.files)}</span>}
      {(turn.cost > 0 || turn.costUnknown) && (
        <span>{turn.costUnknown ? w.atLeast(money(turn.cost)) : money(turn.cost)}</span>
      )}
    </button>
  );
});

function ended(turn: Turn): string {
  const ms = Date.parse(turn.finished) - Date.parse(turn.started);
  const time = Number.isFinite(ms) ? duration(ms * 1e6) : '';
  const word = w.ended[turn.state];
  if (word) return time ? `${word}, ${w.worked(time).toLowerCase()}` : word;
  return w.worked(time);
}

function Running({ turn }: { turn: Turn }) {
  const now = useNow('second');
  const ms = now - Date.parse(turn.started);
  return <>{w.working(Number.isFinite(ms) ? duration(Math.max(0, ms) * 1e6) : '')}</>;
}

/** The last thing that the agent said; its head is here, the whole is asked for when it is longer. */
export const AnswerView = memo(function AnswerView({ seq, head, full }: { seq: number; head: string; full: boolean }) {
  const { session } = useHere();
  const event = useEvent(seq);
  useEffect(() => {
    if (full && !event) session.need({ from: seq, to: seq });
  }, [session, seq, full, event]);
  return (
    <div className={s.answer}>
      <Markdown text={event ? str(event.data, 'text') : head} />
    </div>
  );
});

/** Text as it is generated. It grows in its own block and speaks to nobody. */
export const LiveView = memo(function LiveView({ id, open }: { id: string; open: boolean }) {
  const text = useLiveText(id);
  const turn = useTurn(id);
  const at = turn?.nodes.at(-1);
  // An open turn shows its step and the tool at work in rows of their own.
  if (!text && open) return null;
  return (
    <div className={s.live}>
      {text && <Markdown text={text} />}
      {!text && (
        <p className={s.at}>
          <span>{plain(at?.title ?? '')}</span>
          {turn?.current && <code>{plain(turn.current.title)}</code>}
        </p>
      )}
    </div>
  );
});

/** How it ended: the verdict and why, what changed, and what to do next. */
export const OutcomeView = memo(function OutcomeView({ id, last }: { id: string; last: boolean }) {
  const { session } = useHere();
  const turn = useTurn(id);
  const shown = useShown(session);
  const mark = turn?.marks.findLast((m) => m.kind === 'verdict');
  const event = useEvent(mark?.seq ?? 0);
  const seq = mark?.seq ?? 0;
  useEffect(() => {
    if (last && seq > 0 && !event) session.need({ from: seq, to: seq });
  }, [session, last, seq, event]);
  if (!turn) return null;
  const change: Fields = last ? fields(shown.page.change) : {};
  const verdict = turn.verdict;
  const tone = verdict ? toneOf(verdict) : turn.state === 'failed' ? 'bad' : '';
  const failure = turn.failure;
  return (
    <div className={cx(s.outcome, tone === 'bad' ? s.broken : tone && s[tone])} role="group" aria-label={w.verdict}>
      <div className={s.head}>
        <span className={s.title}>{w.verdictNames[verdict] ?? w.ended[turn.state] ?? plain(turn.outcome)}</span>
        {event && <Numbers d={event.data} />}
      </div>
      {event &&
        strings(event.data, 'reasons')
          .slice(0, 4)
          .map((r) => <p key={r}>{plain(r)}</p>)}
      {failure && <p>{plain(str(failure, 'message'))}</p>}
      {failure && str(failure, 'hint') && <p className={s.numbers}>{plain(str(failure, 'hint'))}</p>}
      {verdict && turn.outcome && !str(change, 'id') && <p className={s.numbers}>{plain(turn.outcome)}</p>}
      {last && w.nextFor[verdict] && <p className={s.numbers}>{w.nextFor[verdict]}</p>}
      {str(change, 'id') && (
        <div className={s.ways}>
          <a href={`/changes/${encodeURIComponent(str(change, 'id'))}`}>{w.openChange}</a>
        </div>
      )}
    </div>
  );
});

function Numbers({ d }: { d: Fields }) {
  const all = [
    num(d, 'fixed') > 0 && w.fixed(num(d, 'fixed')),
    num(d, 'broken') > 0 && w.broke(num(d, 'broken')),
    num(d, 'kept') > 0 && w.kept(num(d, 'kept')),
  ].filter(Boolean);
  return <span className={s.numbers}>{all.join(' · ')}</span>;
}
