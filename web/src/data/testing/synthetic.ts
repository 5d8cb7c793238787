import type { LogEvent } from '../wire';

// A session as the daemon writes it, of any length, the same each time: for tests, not for people.

export const PEOPLE = [
  { handle: 'ana', name: 'Ana' },
  { handle: 'ben', name: 'Ben' },
  { handle: 'chi', name: 'Chi' },
];

export interface Plan {
  session: string;
  turns: number;
  /** Tools in each turn. */
  tools: number;
  /** The last turn is still at work. */
  open?: boolean;
}

const START = Date.UTC(2026, 10, 29, 12, 0, 0);

const TOOLS = ['read', 'read', 'search', 'read', 'edit', 'run', 'read', 'list', 'edit', 'run'];

export class Script {
  readonly events: LogEvent[] = [];
  readonly session: string;
  #ms = START;
  #run = '';

  constructor(session: string) {
    this.session = session;
  }

  add(kind: string, data: Record<string, unknown>, more: Partial<LogEvent> = {}): LogEvent {
    this.#ms += 400;
    const e: LogEvent = {
      subject: this.session,
      seq: this.events.length + 1,
      time: new Date(this.#ms).toISOString(),
      kind,
      data,
      ...more,
    };
    if (this.#run) e.run = this.#run;
    this.events.push(e);
    return e;
  }

  begin(n: number, text = `Task ${n}: make the total of the cart take the discount off`): string {
    const prompt = `prm_${String(n).padStart(6, '0')}`;
    const author = PEOPLE[n % PEOPLE.length];
    this.add('prompt.queued', { prompt, author, text, state: 'queued' });
    this.#run = `run_${String(n).padStart(6, '0')}`;
    this.add('prompt.state', { prompt, author, state: 'running' });
    this.add('run.started', { prompt, blueprint: 'code-change', state: 'running' });
    this.add('sandbox.state', { sandbox: 'sbx_1', state: 'running', from: 'memory', duration_ns: 212_000_000 });
    this.add('node.started', { node: 'implement', kind: 'agent', title: 'implement the task', number: 1 });
    return prompt;
  }

  tool(n: number): void {
    const tool = TOOLS[n % TOOLS.length] as string;
    const call = `c${this.events.length}`;
    const failed = tool === 'run' && n % 20 === 5;
    const title = tool === 'run' ? '$ go test ./cart' : `${tool} cart/file${n % 17}.go`;
    this.add('tool.started', { call, tool, title, input: { path: `cart/file${n % 17}.go` } });
    this.add('tool.finished', {
      call,
      tool,
      title,
      output: `line ${n} of the output\n`.repeat(1 + (n % 30)),
      failed,
      ...(tool === 'run' ? { exit_code: failed ? 1 : 0 } : {}),
      duration_ns: 1_000_000 * (1 + (n % 900)),
    });
  }

  say(n: number): void {
    this.add('agent.text', { text: `Step ${n}: the total is made in \`cart/total.go\`, **one line** to change.` });
  }

  end(n: number, prompt: string): void {
    this.add('agent.text', {
      text: `The total of task ${n} now takes the discount off.\n\n- \`cart/total.go\`: one line\n- the test that failed passes`,
    });
    this.add('node.finished', { node: 'implement', number: 1, result: 'finished', duration_ns: 21_000_000_000 });
    this.add('verdict', {
      verdict: 'proven',
      reasons: ['2 tests that failed pass now'],
      not_shown: [],
      evidence: 'evd_1',
      fixed: 2,
      kept: 31,
      broken: 0,
    });
    this.add('run.finished', {
      prompt,
      blueprint: 'code-change',
      state: 'done',
      outcome: 'change delivered',
      verdict: 'proven',
    });
    this.add('prompt.state', { prompt, author: PEOPLE[n % PEOPLE.length], state: 'done' });
    this.#run = '';
  }
}

export function synthetic(plan: Plan): Script {
  const s = new Script(plan.session);
  s.add('session.created', { to: 'queued', reason: 'waits for a runner' });
  for (let n = 1; n <= plan.turns; n++) {
    const prompt = s.begin(n);
    for (let t = 0; t < plan.tools; t++) {
      if (t % 12 === 0) s.say(t);
      if (t % 40 === 7) {
        s.add('model.call', {
          provider: 'p',
          model: 'm',
          outcome: 'tool_use',
          cost: { known_microusd: 1200 },
          duration_ns: 1e9,
        });
      }
      s.tool(t);
    }
    if (n < plan.turns || !plan.open) s.end(n, prompt);
  }
  return s;
}
