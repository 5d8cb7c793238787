// Server-sent events from bytes. Strict where a broken server would cost memory or truth: a message has a bound, and
// bytes that are not UTF-8 end the stream.

export interface Message {
  event: string;
  data: string;
  /** The last id seen on this connection, '' before the first. */
  id: string;
}

/** An event has at most 1 MiB of data; an escape in JSON takes up to six characters of one. */
export const MAX_MESSAGE = 8 << 20;

export class TooLong extends Error {
  constructor() {
    super('a message of the stream is longer than it may be');
    this.name = 'TooLong';
  }
}

export class Parser {
  #decoder = new TextDecoder('utf-8', { fatal: true });
  #emit: (m: Message) => void;
  #comment: (text: string) => void;
  #max: number;
  #line = '';
  /** Where in #line no line end was found yet, so that a long line is searched once. */
  #from = 0;
  #afterCR = false;
  #event = '';
  #data: string[] = [];
  #size = 0;
  #id = '';

  constructor(emit: (m: Message) => void, comment: (text: string) => void = () => {}, max = MAX_MESSAGE) {
    this.#emit = emit;
    this.#comment = comment;
    this.#max = max;
  }

  /** Takes the next bytes, cut anywhere. */
  push(bytes: Uint8Array): void {
    this.#line += this.#decoder.decode(bytes, { stream: true });
    this.#scan();
    if (this.#line.length + this.#size > this.#max) throw new TooLong();
  }

  #scan(): void {
    let start = 0;
    let at = this.#from;
    const text = this.#line;
    if (this.#afterCR && text.length > 0) {
      if (text[0] === '\n') start = 1;
      this.#afterCR = false;
      if (at < start) at = start;
    }
    for (;;) {
      const end = lineEnd(text, at);
      if (end < 0) break;
      this.#take(text.slice(start, end));
      let next = end + 1;
      if (text[end] === '\r') {
        if (next === text.length) this.#afterCR = true;
        else if (text[next] === '\n') next++;
      }
      start = at = next;
    }
    this.#line = text.slice(start);
    this.#from = this.#line.length;
  }

  #take(line: string): void {
    if (line === '') {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) {
      this.#comment(line.slice(line[1] === ' ' ? 2 : 1));
      return;
    }
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (name === 'data') {
      this.#size += value.length + 1;
      if (this.#size > this.#max) throw new TooLong();
      this.#data.push(value);
    } else if (name === 'event') this.#event = value;
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
  }

  #dispatch(): void {
    if (this.#data.length > 0) {
      this.#emit({ event: this.#event || 'message', data: this.#data.join('\n'), id: this.#id });
    }
    this.#event = '';
    this.#data = [];
    this.#size = 0;
  }
}

function lineEnd(text: string, from: number): number {
  const lf = text.indexOf('\n', from);
  const cr = text.indexOf('\r', from);
  if (lf < 0) return cr;
  return cr < 0 ? lf : Math.min(lf, cr);
}
