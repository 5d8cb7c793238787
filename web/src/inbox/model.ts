import type { Inbox, Row, Section, SectionName } from '../api/types';

// What a message of the stream does to the rows that are shown. Nothing here moves what a person is about to press:
// a row that changes keeps its place, one that goes to another section goes to its top, and only fields that differ
// make a new row.

export const sections: readonly SectionName[] = ['needs', 'running', 'recent'];

export type Counts = Partial<Record<SectionName, number>>;

const running = new Set(['queued', 'starting', 'working', 'stopping']);

/** Where a row belongs after a mark of this person's; otherwise the daemon says it. */
export function sectionOf(row: Row): SectionName {
  const word = row.session.view?.word;
  if (word === 'needs_you' || word === 'paused') return 'needs';
  if (word && running.has(word)) return 'running';
  return row.unread ? 'needs' : 'recent';
}

export const emptySection: Section = { items: [], count: 0 };
export const emptyInbox: Inbox = { needs: emptySection, running: emptySection, recent: emptySection };

export function find(inbox: Inbox, id: string): { section: SectionName; index: number; row: Row } | undefined {
  for (const section of sections) {
    const index = inbox[section].items.findIndex((r) => r.session.id === id);
    const row = inbox[section].items[index];
    if (row) return { section, index, row };
  }
  return undefined;
}

/** Puts a row where it belongs now. An older one than is shown changes nothing. */
export function putRow(inbox: Inbox, row: Row, to: SectionName = row.section ?? sectionOf(row)): Inbox {
  const at = find(inbox, row.session.id);
  if (at && at.row.seq > row.seq) return inbox;
  if (at && at.section === to) {
    const items = [...inbox[to].items];
    items[at.index] = row;
    return { ...inbox, [to]: { ...inbox[to], items } };
  }
  const out = at ? takeOut(inbox, at.section, row.session.id) : inbox;
  return { ...out, [to]: { ...out[to], items: [row, ...out[to].items], count: out[to].count + 1 } };
}

export function dropRow(inbox: Inbox, id: string): Inbox {
  const at = find(inbox, id);
  return at ? takeOut(inbox, at.section, id) : inbox;
}

function takeOut(inbox: Inbox, section: SectionName, id: string): Inbox {
  const { items, count } = inbox[section];
  return {
    ...inbox,
    [section]: { ...inbox[section], items: items.filter((r) => r.session.id !== id), count: Math.max(0, count - 1) },
  };
}

export function putCounts(inbox: Inbox, counts: Counts): Inbox {
  let out = inbox;
  for (const section of sections) {
    const count = counts[section];
    if (count !== undefined && count !== out[section].count) out = { ...out, [section]: { ...out[section], count } };
  }
  return out;
}

/** A read mark of this person, set here or in another browser. A settled outcome that was read leaves "needs you". */
export function putRead(inbox: Inbox, id: string, unread: boolean): Inbox {
  const at = find(inbox, id);
  if (!at || at.row.unread === unread) return inbox;
  const row = { ...at.row, unread };
  const section = sectionOf(row);
  return putRow(inbox, { ...row, section }, section);
}

/** A read mark that moved somewhere: forward past all is read, back is unread. */
export function moveRead(inbox: Inbox, id: string, seq: number): Inbox {
  const row = find(inbox, id)?.row;
  if (!row) return inbox;
  const unread = seq >= row.seq ? false : seq < (row.read ?? 0) ? true : row.unread;
  const out = putRead(inbox, id, unread);
  const at = find(out, id);
  if (!at || at.row.read === seq) return out;
  const items = [...out[at.section].items];
  items[at.index] = { ...at.row, read: seq };
  return { ...out, [at.section]: { ...out[at.section], items } };
}

/** The next page of a section behind what is shown. Rows that have moved up meanwhile are not shown twice. */
export function addPage(inbox: Inbox, name: SectionName, page: Section): Inbox {
  const seen = new Set(sections.flatMap((s) => inbox[s].items.map((r) => r.session.id)));
  const items = [...inbox[name].items, ...page.items.filter((r) => !seen.has(r.session.id))];
  const section: Section = { items, count: page.count || inbox[name].count };
  if (page.next) section.next = page.next;
  return { ...inbox, [name]: section };
}

/** Children stand under their parent where both are in the same section; the order is otherwise the daemon's. */
export function nest(items: Row[]): { row: Row; child: boolean }[] {
  const here = new Set(items.map((r) => r.session.id));
  const under = new Map<string, Row[]>();
  for (const row of items) {
    if (row.parent && here.has(row.parent) && row.parent !== row.session.id) {
      under.set(row.parent, [...(under.get(row.parent) ?? []), row]);
    }
  }
  const out: { row: Row; child: boolean }[] = [];
  const done = new Set<string>();
  const add = (row: Row, child: boolean) => {
    if (done.has(row.session.id)) return;
    done.add(row.session.id);
    out.push({ row, child });
    for (const other of under.get(row.session.id) ?? []) add(other, true);
  };
  for (const row of items) if (!(row.parent && here.has(row.parent))) add(row, false);
  // Two that name each other as parent are shown all the same.
  for (const row of items) add(row, false);
  return out;
}

export const matches = (row: Row, environment: string | undefined): boolean =>
  !environment || row.environment_name === environment || row.session.environment === environment;
