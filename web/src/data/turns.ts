import { type Author, author, type Fields, fields, flag, type LogEvent, list, num, str } from './wire';

// L0 of a session: one turn for each prompt that ran. The outline of the daemon gives the past, events after it are
// added one at a time, each to one turn. No turn needs its events to be shown folded.

export type MarkKind = 'question' | 'approval' | 'denied' | 'error' | 'warning' | 'verdict' | 'change' | 'picture';

export interface Mark {
  seq: number;
  kind: MarkKind;
}

export interface NodeMark {
  node: string;
  title: string;
  number: number;
  state: string;
  result: string;
  started: string;
  duration: number;
  seq: number;
}

export interface Turn {
  id: string;
  index: number;
  author: Author;
  /** The head of a long prompt; the whole one is among the prompts of the session. */
  text: string;
  source: string;
  run: string;
  state: string;
  /** The turn's events are start to end, apart from the other turns. */
  start: number;
  end: number;
  started: string;
  finished: string;
  tools: number;
  files: number;
  errors: number;
  /** Millionths of a US dollar; a lower bound when costUnknown. */
  cost: number;
  costUnknown: boolean;
  nodes: NodeMark[];
  marks: Mark[];
  answer: { seq: number; head: string } | undefined;
  outcome: string;
  verdict: string;
  failure: Fields | undefined;
  /** The tool at work now: one line, put in the place of the one before. */
  current: { seq: number; title: string } | undefined;
}

const RUNNING = new Set(['running', 'waiting', 'starting', 'stopping']);

export function isRunning(t: Pick<Turn, 'state'>): boolean {
  return RUNNING.has(t.state);
}

/** How much of an answer or prompt a fold keeps; the body is asked for when it is shown. */
export const HEAD = 400;

const EDITS = new Set(['edit', 'write', 'patch']);

export class Turns {
  #turns: Turn[] = [];
  #byPrompt = new Map<string, Turn>();
  /** Prompts that wait: what a turn shows when it begins. */
  #waiting = new Map<string, { author: Author; text: string; source: string }>();
  /** Paths edited by turn since the outline. */
  #paths = new Map<string, Set<string>>();
  /** Turns that an outline of a very long session leaves out. */
  #earlier = 0;

  get list(): readonly Turn[] {
    return this.#turns;
  }

  get(id: string): Turn | undefined {
    return this.#byPrompt.get(id);
  }

  /** The turn whose events hold seq. */
  at(seq: number): Turn | undefined {
    let lo = 0;
    let hi = this.#turns.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if ((this.#turns[mid] as Turn).start <= seq) lo = mid + 1;
      else hi = mid;
    }
    return this.#turns[Math.max(0, lo - 1)];
  }

  /** Begins from the daemon's outline, true up to seq. */
  outline(entries: readonly unknown[], seq: number, runs: readonly unknown[] = [], earlier = 0): void {
    this.#earlier = earlier;
    this.#turns = [];
    this.#byPrompt.clear();
    this.#waiting.clear();
    this.#paths.clear();
    for (const entry of entries) {
      const f = fields(entry);
      const id = str(f, 'prompt');
      const state = str(f, 'state');
      if (!id || this.#byPrompt.has(id)) continue;
      if (state === 'queued' || state === 'removed') {
        this.#waiting.set(id, { author: author(f, 'author'), text: str(f, 'text'), source: str(f, 'source') });
        continue;
      }
      this.#open(readTurn(id, f));
    }
    for (const run of runs) this.#ended(fields(run));
    this.#bound(seq);
  }

  /** Adds the next event; answers with the turn that it touched. */
  apply(e: LogEvent): Turn | undefined {
    const d = e.data;
    if (e.kind === 'prompt.queued') {
      this.#waiting.set(str(d, 'prompt'), {
        author: author(d, 'author'),
        text: str(d, 'text'),
        source: str(d, 'source'),
      });
    } else if (e.kind === 'prompt.state') {
      const waiting = this.#waiting.get(str(d, 'prompt'));
      if (waiting && str(d, 'text')) waiting.text = str(d, 'text');
    }
    const begins = beginning(e);
    let turn = begins ? this.#byPrompt.get(begins) : undefined;
    if (begins && !turn) turn = this.#begin(begins, e);
    // An event of a prompt goes to its own turn, all else to the newest.
    if (!turn && e.kind === 'prompt.state') turn = this.#byPrompt.get(str(d, 'prompt'));
    const newest = this.#turns.at(-1);
    if (newest) newest.end = Math.max(newest.end, e.seq);
    turn ??= newest;
    if (turn) this.#count(turn, e);
    return turn;
  }

  #begin(id: string, e: LogEvent): Turn {
    const waiting = this.#waiting.get(id);
    const turn = readTurn(id, {});
    turn.author = waiting?.author ?? author(e.data, 'author');
    turn.text = (waiting?.text ?? str(e.data, 'text')).slice(0, HEAD);
    turn.source = waiting?.source ?? '';
    turn.state = 'running';
    // What was before the first prompt belongs to its turn.
    turn.start = this.#turns.length === 0 ? 1 : e.seq;
    turn.end = e.seq;
    turn.started = e.time;
    this.#waiting.delete(id);
    this.#open(turn);
    return turn;
  }

  #open(turn: Turn): void {
    turn.index = this.#earlier + this.#turns.length;
    this.#turns.push(turn);
    this.#byPrompt.set(turn.id, turn);
  }

  /** How a run ended stands with the runs, not in the outline. */
  #ended(run: Fields): void {
    const turn = this.#byPrompt.get(str(run, 'prompt'));
    if (!turn) return;
    turn.outcome = str(run, 'outcome') || turn.outcome;
    turn.verdict = str(run, 'verdict') || turn.verdict;
    if (run.failure) turn.failure = fields(run.failure);
  }

  /** Cuts the log between the turns of an outline: a prompt may have been queued while the one before it ran. */
  #bound(seq: number): void {
    this.#turns.forEach((t, i) => {
      const before = this.#turns[i - 1];
      t.start = before ? Math.max(t.start, before.end + 1) : this.#earlier > 0 ? t.start : 1;
      t.end = Math.max(t.end, t.start);
    });
    this.#turns.forEach((t, i) => {
      const next = this.#turns[i + 1];
      t.end = next ? next.start - 1 : Math.max(t.end, seq);
    });
  }

  #count(t: Turn, e: LogEvent): void {
    const d = e.data;
    switch (e.kind) {
      case 'prompt.state':
        if (str(d, 'prompt') === t.id) t.state = str(d, 'state') || t.state;
        if (!isRunning(t)) {
          t.finished ||= e.time;
          t.current = undefined;
        }
        break;
      case 'run.started':
        t.run = e.run ?? t.run;
        t.started ||= e.time;
        break;
      case 'run.finished':
        t.outcome = str(d, 'outcome');
        t.verdict = str(d, 'verdict') || t.verdict;
        t.failure = d.failure ? fields(d.failure) : undefined;
        t.state = str(d, 'state') || t.state;
        t.finished = e.time;
        t.current = undefined;
        break;
      case 'node.started':
        t.nodes.push(node(d, e));
        break;
      case 'node.finished':
        leave(t.nodes, d);
        break;
      case 'tool.started':
        t.current = { seq: e.seq, title: str(d, 'title') };
        break;
      case 'tool.finished':
        t.tools++;
        t.current = undefined;
        if (flag(d, 'failed')) t.errors++;
        else if (EDITS.has(str(d, 'tool'))) this.#edited(t, str(d, 'title'));
        break;
      case 'agent.text':
        if (str(d, 'text')) t.answer = { seq: e.seq, head: str(d, 'text').slice(0, HEAD) };
        break;
      case 'model.call': {
        const cost = fields(d.cost);
        t.cost += num(cost, 'known_microusd');
        t.costUnknown ||= flag(cost, 'unknown');
        break;
      }
      case 'verdict':
        t.verdict = str(d, 'verdict');
        break;
    }
    const kind = markOf(e);
    if (kind) t.marks.push({ seq: e.seq, kind });
  }

  #edited(t: Turn, title: string): void {
    let paths = this.#paths.get(t.id);
    if (!paths) {
      paths = new Set();
      this.#paths.set(t.id, paths);
    }
    if (paths.has(title)) return;
    paths.add(title);
    t.files++;
  }
}

/** The prompt that an event sets to work. */
function beginning(e: LogEvent): string {
  if (e.kind === 'run.started') return str(e.data, 'prompt');
  return e.kind === 'prompt.state' && str(e.data, 'state') === 'running' ? str(e.data, 'prompt') : '';
}

function markOf(e: LogEvent): MarkKind | undefined {
  switch (e.kind) {
    case 'approval':
      return 'approval';
    case 'network.denied':
      return 'denied';
    case 'budget':
      return e.actor === 'platform' ? 'question' : undefined;
    case 'tool.finished':
      return flag(e.data, 'failed') ? 'error' : undefined;
    case 'run.finished':
      return e.data.failure ? 'error' : undefined;
    case 'warning':
    case 'verdict':
    case 'change':
    case 'picture':
      return e.kind;
    default:
      return undefined;
  }
}

function node(d: Fields, e: LogEvent): NodeMark {
  return {
    node: str(d, 'node'),
    title: str(d, 'title'),
    number: num(d, 'number'),
    state: 'running',
    result: '',
    started: e.time,
    duration: 0,
    seq: e.seq,
  };
}

/** The newest attempt is near the end: not all of a long run are looked at. */
function leave(nodes: NodeMark[], d: Fields): void {
  for (let i = nodes.length - 1; i >= 0; i--) {
    const n = nodes[i] as NodeMark;
    if (n.node !== str(d, 'node') || n.number !== num(d, 'number')) continue;
    nodes[i] = { ...n, state: 'done', result: str(d, 'result'), duration: num(d, 'duration_ns') };
    return;
  }
}

const KINDS = new Set(['question', 'approval', 'denied', 'error', 'warning', 'verdict', 'change', 'picture']);

function readTurn(id: string, f: Fields): Turn {
  const answer = fields(f.answer);
  return {
    id,
    index: 0,
    author: author(f, 'author'),
    text: str(f, 'text'),
    source: str(f, 'source'),
    run: str(f, 'run'),
    state: str(f, 'state'),
    start: num(f, 'first_seq'),
    end: num(f, 'last_seq'),
    started: str(f, 'started'),
    finished: str(f, 'finished'),
    tools: num(f, 'tools'),
    files: num(f, 'files'),
    errors: num(f, 'errors'),
    cost: num(f, 'cost_microusd'),
    costUnknown: flag(f, 'cost_unknown'),
    nodes: list(f, 'nodes').map((v) => {
      const n = fields(v);
      return {
        node: str(n, 'node'),
        title: str(n, 'title'),
        number: num(n, 'number'),
        state: str(n, 'state'),
        result: str(n, 'result'),
        started: str(n, 'started'),
        duration: num(n, 'duration_ns'),
        seq: num(n, 'seq'),
      };
    }),
    marks: list(f, 'marks').flatMap((v) => {
      const m = fields(v);
      return KINDS.has(str(m, 'kind')) ? [{ seq: num(m, 'seq'), kind: str(m, 'kind') as MarkKind }] : [];
    }),
    answer: f.answer ? { seq: num(answer, 'seq'), head: str(answer, 'head') } : undefined,
    outcome: str(f, 'outcome'),
    verdict: str(f, 'verdict'),
    failure: f.failure ? fields(f.failure) : undefined,
    current: undefined,
  };
}
