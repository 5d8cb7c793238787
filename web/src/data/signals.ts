import { fields, type LogEvent, num, parseJSON, readEvent, str } from './wire';

/** What a tab wants to hear: rows of the inbox, and of some sessions the events after a number. */
export interface Want {
  inbox: boolean;
  sessions: Record<string, number>;
}

export const MAX_SESSIONS = 8;

/** A message of the stream, read. Plain data: it travels to other tabs. */
export type Signal =
  | { is: 'hello'; stream: string; version: string; web: string }
  | { is: 'event'; event: LogEvent }
  | { is: 'delta'; event: LogEvent }
  | { is: 'reset'; session: string; reason: string }
  /** The stream has passed this number for the session: who has less asks for it by range. */
  | { is: 'position'; session: string; seq: number }
  /** The session cannot be read: 403, 404 or 410. */
  | { is: 'refused'; session: string; status: number }
  /** row, counts, view, presence, read and whatever comes to be: handed on as they are. */
  | { is: 'other'; name: string; data: unknown };

export type Condition =
  | 'connecting'
  | 'live'
  /** Nothing comes; it is tried again for ever. */
  | 'waiting'
  /** 401: who are you? */
  | 'signed_out'
  /** 421: this host name is not one of the daemon's. */
  | 'misdirected';

export interface Status {
  condition: Condition;
  /** When it was last live, or when the trying began; milliseconds. */
  since: number;
  detail: string;
}

export function readSignal(name: string, text: string): Signal | undefined {
  const data = parseJSON(text);
  if (data === undefined) return undefined;
  switch (name) {
    case 'event':
    case 'delta': {
      const event = readEvent(data);
      if (!event || (name === 'event' && event.seq < 1)) return undefined;
      return { is: name, event };
    }
    case 'hello': {
      const f = fields(data);
      return { is: 'hello', stream: str(f, 'stream'), version: str(f, 'version'), web: str(f, 'web') };
    }
    case 'reset': {
      const f = fields(data);
      return { is: 'reset', session: str(f, 'session'), reason: str(f, 'reason') };
    }
    case 'position': {
      const f = fields(data);
      return { is: 'position', session: str(f, 'session'), seq: num(f, 'seq') };
    }
    default:
      return { is: 'other', name, data };
  }
}

export function sameWant(a: Want, b: Want): boolean {
  const ka = Object.keys(a.sessions);
  return a.inbox === b.inbox && ka.length === Object.keys(b.sessions).length && ka.every((k) => k in b.sessions);
}

/** The session that a signal is about, "" for none. */
export function sessionOf(s: Signal): string {
  switch (s.is) {
    case 'event':
    case 'delta':
      return s.event.subject;
    case 'other':
      // A view is the whole session.
      return str(fields(s.data), s.name === 'view' ? 'id' : 'session');
    case 'hello':
      return '';
    default:
      return s.session;
  }
}
