import type { Inbox, Row, Section } from '../api/types';
import { sections } from './model';

// The rows of the last visit, so that the page has something true to show before the first answer.
const key = 'drydock.v1.inbox';
const most = 20;

export function readMemory(text: string | null, user: string): Inbox | undefined {
  try {
    const value = JSON.parse(text ?? 'null') as { user?: unknown; inbox?: Record<string, unknown> } | null;
    if (value?.user !== user || !value.inbox) return undefined;
    const out = {} as Inbox;
    for (const name of sections) {
      const section = value.inbox[name] as Section | undefined;
      if (!section || !Array.isArray(section.items)) return undefined;
      const items = section.items.filter(
        (r: Partial<Row>): r is Row =>
          typeof r?.session?.id === 'string' && typeof r.session.owner?.handle === 'string',
      );
      out[name] = { items, count: Number(section.count) || items.length };
    }
    return out;
  } catch {
    return undefined;
  }
}

export function recall(user: string): Inbox | undefined {
  try {
    return readMemory(localStorage.getItem(key), user);
  } catch {
    return undefined;
  }
}

export function remember(user: string, inbox: Inbox) {
  const kept = {} as Inbox;
  for (const name of sections) kept[name] = { items: inbox[name].items.slice(0, most), count: inbox[name].count };
  try {
    localStorage.setItem(key, JSON.stringify({ user, inbox: kept }));
  } catch {
    forget();
  }
}

export function forget() {
  try {
    localStorage.removeItem(key);
  } catch {
    // Nothing was kept.
  }
}
