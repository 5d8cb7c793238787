import type { RefObject } from 'react';
import type { Inbox, Row } from '../api/types';
import { t } from '../app/strings';
import { useKeys } from '../app/useKeys';
import { rowOf } from './useInbox';
import { w } from './words';

const links = (): HTMLElement[] => [...document.querySelectorAll<HTMLElement>('[data-row]')];
const current = (): HTMLElement | undefined => {
  const at = document.activeElement;
  const row = at?.closest('[data-session]');
  return row?.querySelector<HTMLElement>('[data-row]') ?? undefined;
};
// Where the mark was last, for coming back from a field.
let last = '';

function show(link: HTMLElement | undefined) {
  if (!link) return;
  last = link.dataset.row ?? '';
  link.focus({ preventScroll: true });
  link.closest('li')?.scrollIntoView({ block: 'nearest' });
}

function move(by: 1 | -1) {
  const all = links();
  const now = current();
  if (now) {
    show(all[all.indexOf(now) + by]);
    return;
  }
  show(all.find((l) => l.dataset.row === last) ?? (by === 1 ? all[0] : all.at(-1)));
}

/** The keys of the list. The mark is the focus itself, so that whatever reads the page aloud follows. */
export function useInboxKeys(props: {
  inbox: Inbox | undefined;
  search: RefObject<HTMLInputElement | null>;
  composer: RefObject<HTMLTextAreaElement | null>;
  onRead: (row: Row, unread: boolean) => void;
}) {
  const mark = (unread: boolean) => {
    const link = current();
    const row = link && props.inbox && rowOf(props.inbox, link.dataset.row ?? '');
    if (!link || !row || row.unread === unread) return;
    const all = links();
    const at = all.indexOf(link);
    const next = all[at + 1] ?? all[at - 1];
    const section = link.closest<HTMLElement>('[data-section]');
    props.onRead(row, unread);
    // The row may go to another section: the mark goes to the one below, and is never lost.
    if (!unread) requestAnimationFrame(() => (next?.isConnected ? show(next) : section?.focus()));
  };
  const list = t.keys.groups.list;
  useKeys([
    { keys: 'j', label: w.keys.next, group: list, run: () => move(1) },
    { keys: 'k', label: w.keys.previous, group: list, run: () => move(-1) },
    { keys: 'Enter', label: w.keys.open, group: list, run: () => current()?.click() },
    { keys: 'e', label: w.keys.read, group: list, run: () => mark(false) },
    { keys: 'Shift+U', label: w.keys.unread, group: list, run: () => mark(true) },
    { keys: '/', label: w.keys.search, group: list, run: () => props.search.current?.select() },
    { keys: 'c', label: w.keys.compose, group: t.keys.groups.act, run: () => props.composer.current?.focus() },
  ]);
}
