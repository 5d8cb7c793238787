import { asProblem } from '../api/problem';
import { randomId } from './random';
import type { Shelf } from './shelf';
import { Topics } from './topics';
import { fields, list, num, str } from './wire';

export type SendState = 'sending' | 'sent' | 'failed';

/** A prompt on its way. Its client id makes a retry harmless. */
export interface Outgoing {
  client: string;
  session: string;
  text: string;
  state: SendState;
  created: number;
  /** The daemon's id, when it has answered. */
  prompt: string;
  problem: string;
  /** Trying again cannot help: the daemon refused what it says. */
  refused: boolean;
}

/** Hands a prompt to the daemon and answers with its id. */
export type Post = (session: string, text: string, client: string) => Promise<string>;

const none: readonly Outgoing[] = [];

/** Prompts that were sent and are not among the daemon's yet. They outlive a reload. */
export class Outbox {
  readonly topics = new Topics();
  #post: Post;
  #shelf: Shelf;
  #all = new Map<string, readonly Outgoing[]>();
  /** What is being sent at this moment. */
  #flying = new Set<string>();

  constructor(post: Post, shelf: Shelf) {
    this.#post = post;
    this.#shelf = shelf;
    for (const key of shelf.keys('outbox.')) {
      const session = key.slice('outbox.'.length);
      const kept = list({ kept: shelf.get(key) }, 'kept').flatMap((v) => read(session, v) ?? []);
      if (kept.length > 0) this.#all.set(session, kept);
    }
  }

  /** What is under way in a session; the same array until it changes. */
  of(session: string): readonly Outgoing[] {
    return this.#all.get(session) ?? none;
  }

  on(session: string, call: () => void): () => void {
    return this.topics.on(session, call);
  }

  send(session: string, text: string, now = Date.now()): Outgoing {
    const out: Outgoing = {
      client: randomId('web_'),
      session,
      text,
      state: 'sending',
      created: now,
      prompt: '',
      problem: '',
      refused: false,
    };
    this.#put(session, [...this.of(session), out]);
    void this.#try(out);
    return out;
  }

  /** Sends what did not arrive again, under its own id. */
  retry(session: string, client: string): void {
    const out = this.of(session).find((o) => o.client === client);
    if (out?.state !== 'failed') return;
    void this.#try(this.#change(out, { state: 'sending', problem: '', refused: false }));
  }

  /** Sends again what a reload or the loss of the network cut off. */
  resume(): void {
    for (const outs of [...this.#all.values()])
      for (const o of outs)
        if (o.state !== 'sent' && !o.refused && !this.#flying.has(o.client))
          void this.#try(this.#change(o, { state: 'sending', problem: '' }));
  }

  /** Takes one out, to edit its text again or because the daemon shows it now. */
  drop(session: string, client: string): void {
    this.#put(
      session,
      this.of(session).filter((o) => o.client !== client),
    );
  }

  /** Lets go of what the daemon shows by itself. */
  settle(session: string, known: (o: Outgoing) => boolean): void {
    const left = this.of(session).filter((o) => !known(o));
    if (left.length !== this.of(session).length) this.#put(session, left);
  }

  async #try(out: Outgoing): Promise<void> {
    this.#flying.add(out.client);
    try {
      const prompt = await this.#post(out.session, out.text, out.client);
      this.#change(out, { state: 'sent', prompt });
    } catch (e) {
      const problem = asProblem(e);
      const refused = problem.status >= 400 && problem.status < 500 && problem.status !== 401 && !problem.passes;
      this.#change(out, { state: 'failed', problem: problem.message, refused });
    } finally {
      this.#flying.delete(out.client);
    }
  }

  #change(out: Outgoing, part: Partial<Outgoing>): Outgoing {
    const now = { ...(this.of(out.session).find((o) => o.client === out.client) ?? out), ...part };
    this.#put(
      out.session,
      this.of(out.session).map((o) => (o.client === out.client ? now : o)),
    );
    return now;
  }

  #put(session: string, outs: readonly Outgoing[]): void {
    if (outs.length > 0) this.#all.set(session, outs);
    else this.#all.delete(session);
    const keep = outs.filter((o) => o.state !== 'sent');
    if (keep.length > 0) this.#shelf.set(`outbox.${session}`, keep);
    else this.#shelf.delete(`outbox.${session}`);
    this.topics.mark(session);
    this.topics.tell();
  }
}

function read(session: string, value: unknown): Outgoing | undefined {
  const f = fields(value);
  const client = str(f, 'client');
  const text = str(f, 'text');
  if (!client || !text) return undefined;
  // What was being sent when the page went may have arrived: the id makes sending it again the same prompt.
  return {
    client,
    session,
    text,
    state: 'failed',
    created: num(f, 'created'),
    prompt: '',
    problem: str(f, 'problem') || 'the page was left before it was answered',
    refused: f.refused === true,
  };
}
