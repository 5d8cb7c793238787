import type { components } from './schema';

// The names that the page uses for what the interface describes. Generated types stand behind each.
type Schemas = components['schemas'];

export type Author = Schemas['Author'];
export type Who = Schemas['Who'];
export type Session = Omit<Schemas['Session'], 'view'> & { view?: View };
export type Environment = Schemas['Environment'];
export type Draft = Schemas['Draft'];
export type CreateSession = Schemas['CreateSession'];
export type CreatedSession = Schemas['CreatedSession'];
export type Prompt = Schemas['Prompt'];
export type Cost = Schemas['Cost'];

export interface List<T> {
  items: T[];
  next?: string;
}

/** The one word for what a session is doing; computed by the daemon. */
export type Word =
  | 'draft'
  | 'queued'
  | 'starting'
  | 'working'
  | 'needs_you'
  | 'paused'
  | 'stopping'
  | 'stopped'
  | 'proven'
  | 'unproven'
  | 'broken'
  | 'answered'
  | 'handed_over'
  | 'merged'
  | 'closed'
  | 'lost';

export type Role = 'idle' | 'run' | 'ask' | 'ok' | 'unp' | 'bad';

export interface View {
  word: Word;
  role: Role;
  glyph: string;
  reason: string;
  action: string;
  position?: number;
  since: string;
  node?: string;
  attempt?: number;
  sandbox?: string;
}

export interface ChangeSummary {
  id: string;
  number: number;
  state: string;
  verdict?: string;
  added: number;
  removed: number;
  files: number;
}

export interface Row {
  session: Session;
  environment_name: string;
  /** Where it belongs now; not there when it was put away. */
  section?: SectionName;
  unread: boolean;
  seq: number;
  /** How far the person has read. */
  read?: number;
  change?: ChangeSummary;
  elapsed_ns: number;
  /** The time goes on. */
  running?: boolean;
  parent?: string;
}

export interface Section {
  items: Row[];
  count: number;
  next?: string;
}

export type SectionName = 'needs' | 'running' | 'recent';

export type Inbox = Record<SectionName, Section>;
