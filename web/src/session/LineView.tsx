import { memo, useCallback, useEffect, useRef } from 'react';
import { Rows } from '../data/rows';
import { cx } from '../ui/cx';
import s from './activity.module.css';
import { useEvent, useFolds, useHere } from './hooks';
import type { Line } from './lines';
import r from './rows.module.css';
import { GroupView, RowView } from './rowViews';
import { AnswerView, LiveView, OutcomeView, PromptView, SummaryView } from './turnViews';
import type { View } from './view';
import { w } from './words';

interface Props {
  line: Line;
  index: number;
  view: View;
  open: boolean;
  /** The turn is the session's last. */
  last: boolean;
  target: boolean;
  measure: ((el: HTMLElement | null) => void) | undefined;
}

export const LineView = memo(
  function LineView({ line, index, view, open, last, target, measure }: Props) {
    const { key } = line;
    const ref = useCallback(
      (el: HTMLDivElement | null) => {
        view.drawn(key, el);
        measure?.(el);
      },
      [view, key, measure],
    );
    return (
      <div
        ref={ref}
        data-index={index}
        data-key={key}
        tabIndex={-1}
        className={cx(s.line, line.is === 'row' && line.inner && s.inner, target && s.target)}
      >
        <Content line={line} open={open} last={last} />
      </div>
    );
  },
  (a, b) =>
    a.index === b.index &&
    a.view === b.view &&
    a.open === b.open &&
    a.last === b.last &&
    a.target === b.target &&
    a.measure === b.measure &&
    sameLine(a.line, b.line),
);

/** Lines are made anew with their turn; what they show is often the same. */
function sameLine(a: Line, b: Line): boolean {
  if (a === b) return true;
  if (a.key !== b.key || a.is !== b.is) return false;
  switch (a.is) {
    case 'row':
      return b.is === 'row' && a.row === b.row && a.inner === b.inner;
    case 'group':
      return b.is === 'group' && a.group === b.group && a.open === b.open;
    case 'gap':
      return b.is === 'gap' && a.span.from === b.span.from && a.span.to === b.span.to;
    case 'answer':
      return b.is === 'answer' && a.seq === b.seq && a.head === b.head;
    default:
      return true;
  }
}

function Content({ line, open, last }: { line: Line; open: boolean; last: boolean }) {
  switch (line.is) {
    case 'prompt':
      return <PromptView id={line.turn} />;
    case 'summary':
      return <SummaryView id={line.turn} open={open} />;
    case 'mark':
      return <MarkView seq={line.seq} />;
    case 'group':
      return <GroupView group={line.group} open={line.open} />;
    case 'row':
      return <OpenRow line={line} />;
    case 'gap':
      return <GapView from={line.span.from} to={line.span.to} turn={line.turn} />;
    case 'answer':
      return <AnswerView seq={line.seq} head={line.head} full={line.head.length >= 400} />;
    case 'live':
      return <LiveView id={line.turn} open={open} />;
    case 'outcome':
      return <OutcomeView id={line.turn} last={last} />;
  }
}

function OpenRow({ line }: { line: Line & { is: 'row' } }) {
  const { folds } = useHere();
  useFolds(folds);
  return <RowView row={line.row} open={folds.has(line.row.key)} />;
}

/** One event that a folded turn shows all the same. */
function MarkView({ seq }: { seq: number }) {
  const { session, folds } = useHere();
  const event = useEvent(seq);
  useFolds(folds);
  useEffect(() => {
    if (!event) session.need({ from: seq, to: seq });
  }, [session, seq, event]);
  if (!event) return <div className={r.gap} />;
  const rows = new Rows(seq);
  rows.push(event);
  const row = rows.items[0];
  return row?.is === 'row' ? <RowView row={row} open={folds.has(row.key)} /> : null;
}

const STEP = 200;

/** What is not here yet. It is asked for when it comes near the view, from the side that it comes from. */
function GapView({ from, to, turn }: { from: number; to: number; turn: string }) {
  const { session } = useHere();
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    const look = new IntersectionObserver(
      ([entry]) => {
        if (!entry?.isIntersecting) return;
        const t = session.turn(turn);
        const running = t !== undefined && !t.finished && to >= t.end - 1;
        const middle = (entry.rootBounds?.top ?? 0) + (entry.rootBounds?.height ?? 0) / 2;
        const above = entry.boundingClientRect.top < middle && from > (t?.start ?? 1);
        if (running || above) session.need({ from: Math.max(from, to - STEP + 1), to });
        else session.need({ from, to: Math.min(to, from + STEP - 1) });
      },
      { root: el.closest('[data-scroller]'), rootMargin: '600px 0px' },
    );
    look.observe(el);
    return () => look.disconnect();
  }, [session, from, to, turn]);
  return (
    <div ref={ref} className={r.gap}>
      {session.trouble() ? w.troubleRows(from, to) : w.loadingRows(to - from + 1)}
    </div>
  );
}
