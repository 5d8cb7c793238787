// What stands behind `?` in an address. It comes from anywhere, so it is read strictly: what is not understood is left out.
export interface InboxSearch {
  q?: string;
  environment?: string;
  mine?: true;
}

export const views = ['activity', 'changes', 'proof', 'terminal', 'browser', 'desktop', 'preview', 'files'] as const;
export interface SessionSearch {
  view?: (typeof views)[number];
  q?: string;
}

type Raw = Record<string, unknown>;

function word(value: unknown, most: number): string | undefined {
  // An address like ?q=17 is read as a number by the router.
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && text.trim() !== '' ? text.slice(0, most) : undefined;
}

export function inboxSearch(raw: Raw): InboxSearch {
  const out: InboxSearch = {};
  const q = word(raw.q, 200);
  const environment = word(raw.environment, 64);
  if (q) out.q = q;
  if (environment) out.environment = environment;
  if (raw.mine === true || raw.mine === 1) out.mine = true;
  return out;
}

export function sessionSearch(raw: Raw): SessionSearch {
  const out: SessionSearch = {};
  const view = views.find((v) => v === raw.view);
  if (view && view !== 'activity') out.view = view;
  const q = word(raw.q, 200);
  if (q) out.q = q;
  return out;
}
