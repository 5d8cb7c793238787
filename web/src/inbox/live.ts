import type { QueryClient } from '@tanstack/react-query';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Inbox, Row } from '../api/types';
import { announce } from '../app/announcer';
import { setNeeds } from '../app/attention';
import type { InboxSearch } from '../app/search';
import { live } from '../data/live';
import type { Signal } from '../data/signals';
import { type Fields, fields, num, str } from '../data/wire';
import { type Counts, dropRow, find, moveRead, putCounts, putRow, sections } from './model';
import { w } from './words';

/** A message of the stream as far as rows are concerned. Whatever it cannot read it leaves alone. */
export type Change =
  | { is: 'row'; row: Row }
  /** It was put away: no section has it any more. */
  | { is: 'gone'; session: string }
  | { is: 'counts'; counts: Counts }
  | { is: 'read'; session: string; seq: number };

export function readChange(signal: Signal): Change | undefined {
  if (signal.is !== 'other') return undefined;
  const of = fields(signal.data);
  switch (signal.name) {
    case 'row':
      return readRow(of);
    case 'counts': {
      const counts: Counts = {};
      for (const name of sections) if (typeof of[name] === 'number') counts[name] = num(of, name);
      return { is: 'counts', counts };
    }
    case 'read': {
      const session = str(of, 'session');
      return session ? { is: 'read', session, seq: num(of, 'seq') } : undefined;
    }
    default:
      return undefined;
  }
}

function readRow(of: Fields): Change | undefined {
  const session = fields(of.session);
  const id = str(session, 'id');
  if (!id || !str(fields(session.owner), 'handle')) return undefined;
  const section = sections.find((s) => s === of.section);
  if (!section) return { is: 'gone', session: id };
  const row: Row = {
    ...(of as unknown as Row),
    section,
    seq: num(of, 'seq'),
    elapsed_ns: num(of, 'elapsed_ns'),
    unread: of.unread === true,
  };
  if (typeof fields(session.cost).known_microusd !== 'number')
    row.session = { ...row.session, cost: { known_microusd: 0 } };
  return { is: 'row', row };
}

/**
 * What a change does to a list. A list with filters keeps up the rows that it has; whether a new one belongs into it
 * only the daemon can say, so those are left to the next reading.
 */
export function applyChange(inbox: Inbox, change: Change, plain: boolean): Inbox {
  switch (change.is) {
    case 'row':
      if (!plain && !find(inbox, change.row.session.id)) return inbox;
      return putRow(inbox, change.row);
    case 'gone':
      return dropRow(inbox, change.session);
    case 'counts':
      return plain ? putCounts(inbox, change.counts) : inbox;
    case 'read':
      return moveRead(inbox, change.session, change.seq);
  }
}

/** The sentence that is spoken when a session asks or ends; nothing else of a list speaks. */
export function spoken(before: Row | undefined, after: Row): string {
  const view = after.session.view;
  if (!view || before?.session.view?.word === view.word) return '';
  const settled = ['needs_you', 'paused', 'proven', 'unproven', 'broken', 'handed_over', 'lost', 'answered'];
  return settled.includes(view.word) ? w.spoken(after.session.title || w.untitled, view) : '';
}

function take(client: QueryClient, signals: readonly Signal[]) {
  const changes = signals.map(readChange).filter((c) => c !== undefined);
  if (changes.length === 0) return;
  for (const change of changes)
    if (change.is === 'counts' && change.counts.needs !== undefined) setNeeds(change.counts.needs);
  for (const [key, inbox] of client.getQueriesData<Inbox>({ queryKey: ['inbox'] })) {
    if (!inbox) continue;
    const search = fields(key[1]);
    const plain = Object.keys(search).length === 0;
    let next = inbox;
    for (const change of changes) {
      if (plain && change.is === 'row') {
        const text = spoken(find(next, change.row.session.id)?.row, change.row);
        if (text) announce(text);
      }
      next = applyChange(next, change, plain);
    }
    if (next !== inbox) client.setQueryData(key, next);
  }
}

/** Keeps rows and counts up to date, on whatever page one is. */
export function useInboxStream() {
  const client = useQueryClient();
  useEffect(() => {
    const { desk, hub } = live();
    desk.inbox(true);
    let frame = 0;
    let waiting: Signal[] = [];
    const flush = () => {
      frame = 0;
      const signals = waiting;
      waiting = [];
      take(client, signals);
    };
    const stop = hub.listen((signals) => {
      // A new connection: what happened in between is read, since rows have no numbers to go on after.
      if (signals.some((s) => s.is === 'hello')) void client.invalidateQueries({ queryKey: ['inbox'] });
      const rows = signals.filter((s) => s.is === 'other');
      if (rows.length === 0) return;
      waiting.push(...rows);
      if (frame === 0) frame = requestAnimationFrame(flush);
    });
    return () => {
      stop();
      cancelAnimationFrame(frame);
      desk.inbox(false);
    };
  }, [client]);
}

/** With filters, a row that newly fits is found by asking again, at most every few seconds while things happen. */
export function useFilteredLive(search: InboxSearch) {
  const client = useQueryClient();
  const filtered = Object.keys(search).length > 0;
  useEffect(() => {
    if (!filtered) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = live().hub.listen((signals) => {
      if (timer || !signals.some((s) => s.is === 'other' && (s.name === 'row' || s.name === 'counts'))) return;
      timer = setTimeout(() => {
        timer = undefined;
        if (!document.hidden) void client.invalidateQueries({ queryKey: ['inbox', search] });
      }, 3000);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [client, filtered, search]);
}
