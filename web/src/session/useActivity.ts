import { useVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { live } from '../data/live';
import { ScrollAuthority, type ScrollPhase } from '../data/scroll';
import type { Session, Shown } from '../data/session';
import type { Turn } from '../data/turns';
import type { Moves } from './Activity';
import type { Folds } from './folds';
import { useFolds } from './hooks';
import { HEIGHT, type Line, Lines, lineOf, WEIGHT, within } from './lines';
import { keepPlace, placeOf } from './places';
import { useInput } from './useInput';
import { useItemsOf } from './useItemsOf';
import { View } from './view';

/** Below this many nodes all lines are drawn: then the browser's own find, copy and reader see everything. */
const PLAIN = 2400;
/** A jump is given up when what it leads to does not come. */
const PATIENCE = 5000;

export interface ScrollState {
  phase: ScrollPhase;
  settled: boolean;
}

export function useActivity(session: Session, folds: Folds, shown: Shown) {
  const shelf = live().shelf;
  useFolds(folds);
  const itemsVersion = useItemsOf(session, shown.turns, folds);
  const lines = useLines(session, folds, shown, itemsVersion);
  const [place] = useState(() => placeOf(session.id, shelf));
  const view = useMemo(() => new View(), []);
  const scroller = useRef<HTMLElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const store = useMemo(() => makeState(), []);
  const authority = useMemo(() => new ScrollAuthority(view, store.changed), [view, store]);
  store.of = authority;

  const wasVirtual = useRef(false);
  const weight = lines.reduce((n, l) => n + WEIGHT[l.is], 0);
  const virtual = weight > (wasVirtual.current ? PLAIN / 2 : PLAIN);
  wasVirtual.current = virtual;
  const virtualizer = useVirtualizer({
    count: virtual ? lines.length : 0,
    enabled: virtual,
    getScrollElement: () => scroller.current,
    estimateSize: (i) => HEIGHT[lines[i]?.is ?? 'row'],
    getItemKey: (i) => lines[i]?.key ?? i,
    overscan: 10,
    initialOffset: place.top ?? 0,
    initialRect: { width: 0, height: window.innerHeight },
    initialMeasurementsCache: place.sizes ?? [],
  });
  // Only the authority moves the view.
  virtualizer.shouldAdjustScrollPositionOnItemSizeChange = () => false;
  const items = virtual ? virtualizer.getVirtualItems() : [];
  const drawn = virtual
    ? items.flatMap((v) => (lines[v.index] ? [{ line: lines[v.index] as Line, index: v.index }] : []))
    : lines.map((line, index) => ({ line, index }));
  const above = virtual ? (items[0]?.start ?? 0) : 0;
  const below = virtual ? virtualizer.getTotalSize() - (items.at(-1)?.end ?? 0) : 0;

  const goal = useRef<{ seq: number; until: number } | undefined>(undefined);
  const began = useRef(performance.now());
  /** The line that a jump leads to gets the focus as soon as it is drawn. */
  const focus = useRef('');
  const [target, setTarget] = useState('');
  const [seeking, setSeeking] = useState(() => Boolean(place.saved?.anchor) && !place.saved?.following);
  const room = useRoom(session, authority, shown.turns);

  view.lines = lines;
  view.show = (index) => {
    if (!virtual) return;
    const at = virtualizer.getOffsetForIndex(index, 'start');
    if (at && scroller.current) scroller.current.scrollTop = at[0];
  };
  view.waiting = () => performance.now() - began.current < 3000;

  // Before each paint: first where a jump leads, then that everything stands where it should.
  const restored = useRef(false);
  useLayoutEffect(() => {
    view.scroller = scroller.current;
    if (!restored.current && shown.phase.is === 'ready') {
      restored.current = true;
      began.current = performance.now();
      if (place.top !== undefined && scroller.current) scroller.current.scrollTop = place.top;
      authority.restore(place.saved);
    }
    const seq = goal.current?.seq;
    if (seq !== undefined) {
      const key = resolve(lines, seq, session, folds);
      if (key) {
        goal.current = undefined;
        setTarget(key);
        authority.navigate(key);
        focus.current = key;
      } else if (performance.now() > (goal.current?.until ?? 0)) goal.current = undefined;
    }
    authority.layout();
    const line = view.element(focus.current);
    if (line) {
      focus.current = '';
      line.focus({ preventScroll: true });
    }
    if (seeking && (authority.phase !== 'restoring' || authority.settled)) setSeeking(false);
  });

  useFrames(authority, store, () => setSeeking(false));
  useSizes(authority, scroller, content);
  useInput(scroller, authority);
  const fresh = useFresh(shown.seq, store);

  useEffect(() => {
    const keep = () =>
      keepPlace(session.id, shelf, {
        saved: authority.save(),
        top: view.top(),
        sizes: virtualizer.measurementsCache.slice(),
      });
    const leave = () => document.hidden && keep();
    document.addEventListener('visibilitychange', leave);
    window.addEventListener('pagehide', keep);
    return () => {
      keep();
      document.removeEventListener('visibilitychange', leave);
      window.removeEventListener('pagehide', keep);
    };
  }, [session, shelf, authority, view, virtualizer]);

  const moves: Moves = useMemo(
    () => ({
      goTo: (seq) => {
        const turn = session.turnAt(seq);
        if (!turn) return;
        began.current = performance.now();
        goal.current = { seq, until: performance.now() + PATIENCE };
        session.need({ from: seq - 80, to: seq + 120 });
        folds.setTurn(turn, true);
      },
      goToTurn: (id) => {
        setTarget('');
        focus.current = `${id}/prompt`;
        authority.navigate(focus.current, 0);
        view.element(focus.current)?.focus({ preventScroll: true });
      },
      follow: () => authority.follow(),
      turn: () => view.lines.find((l) => l.key === view.first()?.key)?.turn,
      seq: () => {
        const at = view.first()?.key;
        const line = view.lines.find((l) => l.key === at);
        return line?.is === 'row' ? line.row.seq : (session.turn(line?.turn ?? '')?.start ?? 0);
      },
      sent: room.sent,
    }),
    [session, folds, authority, view, room.sent],
  );

  return {
    view,
    scroller,
    content,
    drawn,
    above,
    below,
    virtual,
    target,
    seeking,
    fresh,
    moves,
    room: room.turn,
    measure: virtual ? virtualizer.measureElement : undefined,
    onScroll: useCallback(() => authority.scrolled(), [authority]),
    onState: store.on,
    state: store.get,
  };
}

function useLines(session: Session, folds: Folds, shown: Shown, version: number): readonly Line[] {
  const maker = useMemo(() => new Lines(), []);
  void version;
  const turns = shown.turns.map((id) => session.turn(id)).filter((t): t is Turn => t !== undefined);
  return maker.make(turns, (id) => session.items(id), folds);
}

/** The line of an event; what hides it is opened or asked for first. */
function resolve(lines: readonly Line[], seq: number, session: Session, folds: Folds): string | undefined {
  const line = lines[lineOf(lines, seq)];
  if (!line) return undefined;
  if (line.is === 'gap') {
    session.need({ from: seq - 80, to: seq + 120 });
    return undefined;
  }
  if (line.is === 'group' && within(line.group, seq)) {
    folds.show(line.group.key, true);
    return undefined;
  }
  return line.key;
}

/** Goes on until a jump has come to rest. */
function useFrames(authority: ScrollAuthority, store: ReturnType<typeof makeState>, seen: () => void): void {
  const call = useRef(seen);
  call.current = seen;
  useEffect(() => {
    let frame = 0;
    const began = performance.now();
    const step = () => {
      frame = 0;
      authority.layout();
      if (performance.now() - began > 1500) call.current();
      if (authority.working) frame = requestAnimationFrame(step);
      else call.current();
    };
    const plan = () => {
      if (!frame && authority.working) frame = requestAnimationFrame(step);
    };
    const off = store.on(plan);
    plan();
    return () => {
      off();
      cancelAnimationFrame(frame);
    };
  }, [authority, store]);
}

/** Sizes change without us: bodies open, pictures and fonts come, a keyboard takes half of the phone. */
function useSizes(
  authority: ScrollAuthority,
  scroller: React.RefObject<HTMLElement | null>,
  content: React.RefObject<HTMLElement | null>,
): void {
  useEffect(() => {
    const observer = new ResizeObserver(() => authority.layout());
    if (scroller.current) observer.observe(scroller.current);
    if (content.current) observer.observe(content.current);
    return () => observer.disconnect();
  }, [authority, scroller, content]);
}

/** How many events came since the end was left. */
function useFresh(seq: number, store: ReturnType<typeof makeState>): number {
  const left = useRef(seq);
  if (store.get().phase === 'following') left.current = seq;
  return seq - left.current;
}

/** Room below a prompt that was just sent, so that it can stand at the top. */
function useRoom(session: Session, authority: ScrollAuthority, turns: readonly string[]) {
  const [turn, setTurn] = useState('');
  const waits = useRef<{ from: number; until: number } | undefined>(undefined);
  const count = turns.length;
  const newest = turns.at(-1) ?? '';
  useLayoutEffect(() => {
    const w = waits.current;
    if (!w || count <= w.from) return;
    waits.current = undefined;
    if (performance.now() > w.until) return;
    setTurn(newest);
    authority.anchorTurn(`${newest}/prompt`);
  }, [count, newest, authority]);
  const sent = useCallback(() => {
    // One that waits in the queue begins some time later, and must not move the view then.
    waits.current = { from: session.shown().turns.length, until: performance.now() + 5000 };
  }, [session]);
  return { turn, sent };
}

function makeState() {
  const listeners = new Set<() => void>();
  let state: ScrollState = { phase: 'restoring', settled: false };
  const store = {
    of: undefined as ScrollAuthority | undefined,
    changed: () => {
      if (!store.of) return;
      state = { phase: store.of.phase, settled: store.of.settled };
      for (const call of [...listeners]) call();
    },
    on: (call: () => void) => {
      listeners.add(call);
      return () => listeners.delete(call);
    },
    get: () => state,
  };
  return store;
}
