import { asProblem, type Problem, problemOf } from '../api/problem';
import type { Frame } from './frame';
import type { Hub } from './hub';
import { EventLog, type Span } from './log';
import { Prompts } from './prompts';
import { Reader } from './reader';
import { type Item, Rows } from './rows';
import { type Signal, sessionOf } from './signals';
import type { Page, Source } from './source';
import { Topics } from './topics';
import { type Turn, Turns } from './turns';
import { type Fields, fields, type LogEvent, str } from './wire';

/** A gap over this is not read event by event: a new snapshot is less. */
export const MAX_GAP = 5000;

export type Phase =
  | { is: 'loading' }
  | { is: 'ready' }
  /** 403, 404 and 410 are told apart by the problem. */
  | { is: 'refused'; problem: Problem }
  | { is: 'failed'; problem: Problem };

const REFUSED = new Set([403, 404, 410]);

export interface Shown {
  phase: Phase;
  /** The newest snapshot: everything that is neither turn nor queue. */
  page: Fields;
  /** The state word, which the daemon alone computes. */
  view: Fields;
  presence: readonly Fields[];
  /** The newest number that was applied. */
  seq: number;
  turns: readonly string[];
}

interface Folded {
  rows: Rows;
  /** What was handed out; undefined after a change. */
  items: readonly Item[] | undefined;
  /** Something came between: folded anew when it is looked at. */
  stale: boolean;
}

const nothing: readonly Item[] = [];

/**
 * One session: its log, the fold of it, and who wants to know. Lives outside React; what it hands out is the same
 * object until it changes, and it changes only within a frame.
 *
 * Topics: "session", "turn:ID", "items:ID", "live:ID", "event:SEQ", "queue".
 */
export class Session {
  readonly id: string;
  readonly log = new EventLog();
  readonly prompts = new Prompts();
  readonly topics = new Topics();
  #turns = new Turns();
  #source: Source;
  #hub: Hub | undefined;
  #frame: Frame;
  #reader: Reader;
  #shown: Shown = { phase: { is: 'loading' }, page: {}, view: {}, presence: [], seq: 0, turns: [] };
  #views = new Map<string, Turn>();
  #folded = new Map<string, Folded>();
  #live = new Map<string, string>();
  /** Everything up to here is in the turns. */
  #applied = 0;
  /** The newest number that is known to exist. */
  #head = 0;
  #incoming: Signal[] = [];
  #arrived: LogEvent[] = [];
  #bodies = new Set<number>();
  #reset = false;
  #opening: Promise<void> | undefined;
  #again: (() => void) | undefined;
  #unlisten: () => void = () => {};

  constructor(id: string, source: Source, hub: Hub | undefined, frame: Frame) {
    this.id = id;
    this.#source = source;
    this.#hub = hub;
    this.#frame = frame;
    this.#reader = new Reader(id, source, {
      missing: (span) => this.log.missing(span),
      take: (events) => {
        this.#arrived.push(...events);
        this.#frame.ask(this.#flush);
      },
      failed: () => {
        this.topics.mark('session');
        this.#frame.ask(this.#flush);
      },
    });
    if (hub) this.#unlisten = hub.listen((signals) => this.hear(signals));
  }

  /** Reads the session, or takes a snapshot that came with the page. */
  open(inlined?: Page): Promise<void> {
    if (inlined && inlined.seq > 0) {
      this.#load(inlined);
      this.#frame.ask(this.#flush);
      return Promise.resolve();
    }
    this.#opening ??= this.#read().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  close(): void {
    this.#unlisten();
    this.#again?.();
    this.#reader.close();
  }

  /** Asks for a new snapshot soon: something changed that only the daemon can tell. Many wishes are one request. */
  refresh(): void {
    if (this.#again) return;
    const timer = setTimeout(() => {
      this.#again = undefined;
      void this.open();
    }, 150);
    this.#again = () => clearTimeout(timer);
  }

  shown = (): Shown => this.#shown;

  turn(id: string): Turn | undefined {
    return this.#views.get(id);
  }

  /** The newest text of the agent in this turn that is not an event yet. */
  live(id: string): string {
    return this.#live.get(id) ?? '';
  }

  /** What an open turn shows. Folded when it is first asked for, and kept up to date from then on. */
  items(id: string): readonly Item[] {
    const turn = this.#turns.get(id);
    if (!turn) return nothing;
    let f = this.#folded.get(id);
    if (!f || f.stale) {
      f = this.#fold(turn);
      this.#folded.set(id, f);
    }
    f.items ??= f.rows.items.slice();
    return f.items;
  }

  turnAt(seq: number): string | undefined {
    return this.#turns.at(seq)?.id;
  }

  /** Wants the events of a span; they come in pages, newest wish first. */
  need(span: Span): void {
    this.#reader.need({ from: Math.max(1, span.from), to: Math.min(span.to, this.#head) });
  }

  /** Wants the whole body of an event. */
  needBody(seq: number): void {
    if (this.#bodies.has(seq)) return;
    this.#bodies.add(seq);
    this.#source.event(this.id, seq).then(
      (e) => {
        this.#arrived.push(e);
        this.#frame.ask(this.#flush);
      },
      () => this.#bodies.delete(seq),
    );
  }

  /** What went wrong when a span was read, "" for nothing. */
  trouble(): string {
    return this.#reader.trouble;
  }

  hear(signals: readonly Signal[]): void {
    for (const s of signals) {
      if (sessionOf(s) === this.id) this.#incoming.push(s);
    }
    if (this.#incoming.length > 0) this.#frame.ask(this.#flush);
  }

  async #read(): Promise<void> {
    try {
      const page = await this.#source.page(this.id);
      this.#load(page);
    } catch (e) {
      const problem = asProblem(e);
      const refused = REFUSED.has(problem.status);
      // What was read before stays on show; only a session that never came is an error of the page.
      if (this.#head === 0 || refused) this.#set({ phase: { is: refused ? 'refused' : 'failed', problem } });
    }
    this.#frame.ask(this.#flush);
  }

  #load(page: Page): void {
    if (page.seq < this.#applied) {
      // The log is further than this snapshot: what it says beside the log still counts.
      this.#set({ page: page.rest });
      return;
    }
    const far = this.#applied === 0 || page.seq - this.#applied > MAX_GAP || this.#reset;
    this.#reset = false;
    this.#turns = new Turns();
    this.#turns.outline(page.outline, page.seq, page.runs, page.earlier);
    this.prompts.load(page.prompts);
    this.#applied = page.seq;
    this.#head = Math.max(this.#head, page.seq);
    this.#views.clear();
    for (const f of this.#folded.values()) f.stale = true;
    for (const t of this.#turns.list) this.#touch(t, true);
    const view = fields(fields(page.rest.session).view);
    this.#set({
      phase: { is: 'ready' },
      page: page.rest,
      view,
      seq: page.seq,
      turns: this.#turns.list.map((t) => t.id),
    });
    this.topics.mark('queue');
    if (far) this.#hub?.moveTo(this.id, page.seq);
    this.#catchUp();
  }

  #set(part: Partial<Shown>): void {
    this.#shown = { ...this.#shown, ...part };
    this.topics.mark('session');
  }

  #touch(t: Turn, items: boolean): void {
    this.#views.set(t.id, { ...t, nodes: t.nodes.slice(), marks: t.marks.slice() });
    this.topics.mark(`turn:${t.id}`);
    if (items) this.topics.mark(`items:${t.id}`);
  }

  /** Takes in everything that came since the last frame and tells who asked. */
  #flush = (): void => {
    for (const s of this.#incoming) this.#signal(s);
    this.#incoming = [];
    const touched = new Set<Turn>();
    for (const e of this.#arrived) {
      if (this.log.add(e)) this.#stale(e, touched);
      else if (this.#bodies.has(e.seq)) {
        this.log.replace(e);
        this.#stale(e, touched);
      }
      this.#head = Math.max(this.#head, e.seq);
    }
    this.#arrived = [];
    this.#reader.taken();
    const turns = this.#turns.list.length;
    const seq = this.#applied;
    if (this.#shown.phase.is === 'ready') this.#apply(touched);
    for (const t of touched) this.#touch(t, true);
    if (this.#turns.list.length !== turns) this.#set({ seq: this.#applied, turns: this.#turns.list.map((t) => t.id) });
    else if (this.#applied !== seq) this.#set({ seq: this.#applied });
    this.#catchUp();
    this.topics.tell();
  };

  #signal(s: Signal): void {
    switch (s.is) {
      case 'event':
        this.#arrived.push(s.event);
        break;
      case 'delta': {
        const turn = this.#turns.list.at(-1);
        if (!turn) break;
        this.#live.set(turn.id, (this.#live.get(turn.id) ?? '') + str(s.event.data, 'text'));
        this.topics.mark(`live:${turn.id}`);
        break;
      }
      case 'position':
        this.#head = Math.max(this.#head, s.seq);
        break;
      case 'reset':
        this.#reset = true;
        void this.open();
        break;
      case 'refused':
        this.#set({ phase: { is: 'refused', problem: problemOf(s.status, undefined) } });
        break;
      case 'other':
        this.#other(s.name, fields(s.data));
        break;
    }
  }

  #other(name: string, data: Fields): void {
    if (name === 'view') this.#set({ view: fields(data.view), page: { ...this.#shown.page, session: data } });
    else if (name === 'presence') {
      const people = data.people ?? data.present;
      this.#set({ presence: Array.isArray(people) ? people.map(fields) : [] });
    }
  }

  /** Moves the turns on over everything that is here without a gap. */
  #apply(touched: Set<Turn>): void {
    for (let e = this.log.get(this.#applied + 1); e; e = this.log.get(this.#applied + 1)) {
      this.#applied = e.seq;
      const turn = this.#turns.apply(e);
      if (turn) touched.add(turn);
      if (this.prompts.apply(e)) this.refresh();
      if (e.kind.startsWith('prompt.')) this.topics.mark('queue');
      const newest = this.#turns.list.at(-1);
      if (newest && newest !== turn) touched.add(newest);
      if (newest) this.#append(newest, e);
      if (newest && (e.kind === 'agent.text' || e.kind === 'run.finished')) this.#hush(newest.id);
      if (WANTS_PAGE.has(e.kind)) this.refresh();
    }
  }

  #hush(turn: string): void {
    if (this.#live.delete(turn)) this.topics.mark(`live:${turn}`);
  }

  /** An event at the end of a folded turn is added to the fold; elsewhere the turn is folded anew when it is looked at. */
  #append(t: Turn, e: LogEvent): void {
    const f = this.#folded.get(t.id);
    if (!f || f.stale) return;
    if (e.seq !== f.rows.last + 1) {
      f.stale = true;
      return;
    }
    f.rows.push(e);
    f.items = undefined;
  }

  #stale(e: LogEvent, touched: Set<Turn>): void {
    this.topics.mark(`event:${e.seq}`);
    if (e.seq > this.#applied) return;
    const turn = this.#turns.at(e.seq);
    if (!turn) return;
    const f = this.#folded.get(turn.id);
    if (f) f.stale = true;
    touched.add(turn);
  }

  #fold(turn: Turn): Folded {
    const rows = new Rows(turn.start);
    const to = Math.min(turn.end, Math.max(this.#applied, turn.start - 1));
    for (const s of this.log.here({ from: turn.start, to })) {
      for (let seq = s.from; seq <= s.to; seq++) rows.push(this.log.get(seq) as LogEvent);
    }
    if (rows.last < to) rows.gap({ from: rows.last + 1, to });
    return { rows, items: undefined, stale: false };
  }

  /** Asks for what the stream skipped; a gap that is too long is a reason for a new snapshot. */
  #catchUp(): void {
    if (this.#shown.phase.is !== 'ready' || this.#head <= this.#applied) return;
    if (this.#head - this.#applied > MAX_GAP) {
      void this.open();
      return;
    }
    this.#reader.need({ from: this.#applied + 1, to: this.#head });
  }
}

/** After these, the snapshot has more than the log tells: evidence, numbers of the change, people, children. */
const WANTS_PAGE = new Set([
  'run.finished',
  'verdict',
  'change',
  'approval',
  'commit',
  'budget',
  'selection',
  'comment',
]);
