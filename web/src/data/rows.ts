import type { Span } from './log';
import { flag, type LogEvent, num, str } from './wire';

// L1 and L2 of a session: what an open turn shows. Events that follow each other become rows, like rows a group, and
// holes of the log are shown as such. A row or group that changes is a new object, so that what is drawn by identity
// is drawn again only then.

export type RowKind =
  | 'text'
  | 'thought'
  | 'tool'
  | 'node'
  | 'machine'
  | 'model'
  | 'run'
  | 'unknown'
  | 'check'
  | 'verdict'
  | 'commit'
  | 'change'
  | 'comment'
  | 'picture'
  | 'denied'
  | 'approval'
  | 'budget'
  | 'selection'
  | 'warning';

export interface Row {
  is: 'row';
  key: string;
  seq: number;
  kind: RowKind;
  /** What it can be grouped with; "" for nothing. */
  like: string;
  event: LogEvent;
  /** The event that ended what the first one began. */
  end: LogEvent | undefined;
  failed: boolean;
}

export interface Group {
  is: 'group';
  key: string;
  seq: number;
  like: string;
  rows: Row[];
  failed: number;
}

export interface Gap {
  is: 'gap';
  key: string;
  seq: number;
  span: Span;
}

export type Item = Row | Group | Gap;

const LIKE: Record<string, string> = {
  read: 'look',
  list: 'look',
  search: 'look',
  edit: 'edit',
  write: 'edit',
  patch: 'edit',
  run: 'run',
  process: 'run',
  picture: 'picture',
};

const PLAIN: Record<string, RowKind> = {
  'agent.text': 'text',
  'agent.thought': 'thought',
  'node.started': 'node',
  'sandbox.state': 'machine',
  phase: 'machine',
  'service.state': 'machine',
  log: 'machine',
  'build.state': 'machine',
  'run.finished': 'run',
  'network.denied': 'denied',
  check: 'check',
  verdict: 'verdict',
  commit: 'commit',
  change: 'change',
  comment: 'comment',
  picture: 'picture',
  approval: 'approval',
  budget: 'budget',
  selection: 'selection',
  warning: 'warning',
};

/** Told elsewhere: by the prompt itself, the queue, the header, the step rail. */
const SILENT = new Set(['prompt.queued', 'prompt.state', 'session.created', 'session.state', 'run.started']);

export class Rows {
  items: Item[] = [];
  /** The newest event that was folded. */
  last: number;
  #calls = new Map<string, { item: number; row: number }>();
  #nodes = new Map<string, number>();

  constructor(first: number) {
    this.last = first - 1;
  }

  /** Adds an event that is newer than all before. What lies between is a gap. */
  push(e: LogEvent): void {
    if (e.seq > this.last + 1) this.gap({ from: this.last + 1, to: e.seq - 1 });
    this.last = e.seq;
    if (e.kind === 'tool.finished' && this.#finish(e)) return;
    if (e.kind === 'node.finished' && this.#leave(e)) return;
    if (SILENT.has(e.kind)) return;
    // A call that went well is in the turn's cost.
    if (e.kind === 'model.call' && wentWell(e)) return;
    const at = this.#add(rowOf(e));
    if (e.kind === 'tool.started') this.#calls.set(str(e.data, 'call'), at);
    if (e.kind === 'node.started') this.#nodes.set(str(e.data, 'node'), at.item);
  }

  gap(span: Span): void {
    this.items.push({ is: 'gap', key: `g${span.from}`, seq: span.from, span });
    this.last = span.to;
  }

  #add(row: Row): { item: number; row: number } {
    const end = this.items.length - 1;
    const item = this.items[end];
    if (row.like && item && item.is !== 'gap' && item.like === row.like) {
      const rows = item.is === 'group' ? item.rows : [item];
      // The rows are shared with the group before: one appended row does not copy a group of thousands.
      if (item.is === 'group') rows.push(row);
      const all = item.is === 'group' ? rows : [...rows, row];
      this.items[end] = group(all, item.is === 'group' ? item.failed : rows[0]?.failed ? 1 : 0, row.failed ? 1 : 0);
      return { item: end, row: all.length - 1 };
    }
    this.items.push(row);
    return { item: end + 1, row: 0 };
  }

  #finish(e: LogEvent): boolean {
    const call = str(e.data, 'call');
    const at = this.#calls.get(call);
    if (!at) return false;
    this.#calls.delete(call);
    const failed = flag(e.data, 'failed');
    this.#set(at, (row) => ({ ...row, end: e, failed }));
    return true;
  }

  #leave(e: LogEvent): boolean {
    const name = str(e.data, 'node');
    const item = this.#nodes.get(name);
    if (item === undefined) return false;
    this.#nodes.delete(name);
    this.#set({ item, row: 0 }, (row) => ({ ...row, end: e, failed: nodeFailed(str(e.data, 'result')) }));
    return true;
  }

  #set(at: { item: number; row: number }, change: (row: Row) => Row): void {
    const item = this.items[at.item];
    if (item?.is === 'row') this.items[at.item] = change(item);
    else if (item?.is === 'group') {
      const old = item.rows[at.row];
      if (!old) return;
      const row = change(old);
      item.rows[at.row] = row;
      this.items[at.item] = group(item.rows, item.failed, Number(row.failed) - Number(old.failed));
    }
  }
}

function group(rows: Row[], failed: number, more: number): Group {
  const first = rows[0] as Row;
  return { is: 'group', key: `l${first.seq}`, seq: first.seq, like: first.like, rows, failed: failed + more };
}

function rowOf(e: LogEvent): Row {
  const kind = kindOf(e);
  return {
    is: 'row',
    key: `r${e.seq}`,
    seq: e.seq,
    kind,
    like:
      kind === 'tool'
        ? (LIKE[str(e.data, 'tool')] ?? `tool:${str(e.data, 'tool')}`)
        : kind === 'machine'
          ? 'machine'
          : '',
    event: e,
    // What ended without a beginning that is here stands for both.
    end: e.kind === 'tool.finished' || e.kind === 'node.finished' ? e : undefined,
    failed: failedOf(e),
  };
}

function kindOf(e: LogEvent): RowKind {
  if (e.kind.startsWith('tool.')) return 'tool';
  if (e.kind === 'model.call') return 'model';
  if (e.kind === 'node.finished') return 'node';
  return PLAIN[e.kind] ?? 'unknown';
}

function failedOf(e: LogEvent): boolean {
  if (e.kind === 'run.finished') return str(e.data, 'state') === 'failed';
  if (e.kind === 'check') return num(e.data, 'failed') > 0 || str(e.data, 'result') === 'failed';
  if (e.kind === 'node.finished') return nodeFailed(str(e.data, 'result'));
  return flag(e.data, 'failed') || e.kind === 'model.call';
}

function nodeFailed(result: string): boolean {
  return result === 'failed' || result === 'error' || result === 'red';
}

const WELL = new Set(['', 'end_turn', 'tool_use', 'max_tokens']);

function wentWell(e: LogEvent): boolean {
  return WELL.has(str(e.data, 'outcome'));
}
