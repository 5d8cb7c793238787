import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useState } from 'react';
import { call, part } from '../api/client';
import { asProblem, type Problem } from '../api/problem';
import type { Inbox, Row, Section, SectionName } from '../api/types';
import { announce } from '../app/announcer';
import { whoQuery } from '../app/identity';
import type { InboxSearch } from '../app/search';
import { takeSnapshot } from '../app/snapshot';
import { recall, remember } from './memory';
import { addPage, find, putRead } from './model';
import { w } from './words';

const page = 20;

const isPlain = (search: InboxSearch) => !search.q && !search.environment && !search.mine;
export const inboxKey = (search: InboxSearch) => ['inbox', search] as const;

/** The rows, from the last visit at first, then from the daemon, then kept up to date by its stream. */
export function useInbox(search: InboxSearch) {
  const client = useQueryClient();
  const who = useQuery(whoQuery).data;
  const user = who?.user.handle ?? '';
  const key = inboxKey(search);
  const query = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => {
      // Asked again, it gives as much as is shown, so that nothing vanishes under the reader.
      const had = client.getQueryData<Inbox>(key);
      const shown = Math.max(page, ...(had ? Object.values(had).map((s: Section) => s.items.length) : []));
      return call<Inbox>('/inbox', { query: { ...search, limit: Math.min(200, shown) }, signal });
    },
    ...(isPlain(search) ? { initialData: () => takeSnapshot<Inbox>('inbox') } : {}),
    placeholderData: isPlain(search) ? (before) => before ?? recall(user) : keepPreviousData,
  });

  useEffect(() => {
    if (query.data && !query.isPlaceholderData && isPlain(search) && user) remember(user, query.data);
  }, [query.data, query.isPlaceholderData, search, user]);

  const setRead = useCallback(
    async (row: Row, unread: boolean) => {
      const id = row.session.id;
      const put = (value: boolean) =>
        client.setQueriesData<Inbox>({ queryKey: ['inbox'] }, (inbox) => inbox && putRead(inbox, id, value));
      put(unread);
      if (!unread) announce(w.markedRead(row.session.title || w.untitled));
      try {
        const path = `/sessions/${part(id)}/read`;
        if (unread) await call(path, { method: 'DELETE' });
        else await call(path, { method: 'PUT', body: { seq: row.seq } });
      } catch (error) {
        put(!unread);
        throw error;
      }
    },
    [client],
  );

  return { query, setRead };
}

/** The next page of one section; it fails and is tried again by itself. */
export function useMore(search: InboxSearch, name: SectionName) {
  const client = useQueryClient();
  const [state, setState] = useState<{ busy: boolean; problem?: Problem }>({ busy: false });
  const more = async () => {
    const inbox = client.getQueryData<Inbox>(inboxKey(search));
    const cursor = inbox?.[name].next;
    if (!cursor || state.busy) return;
    setState({ busy: true });
    try {
      const got = await call<Section>(`/inbox/${name}`, { query: { ...search, cursor, limit: page } });
      client.setQueryData<Inbox>(inboxKey(search), (now) => now && addPage(now, name, got));
      setState({ busy: false });
    } catch (error) {
      setState({ busy: false, problem: asProblem(error) });
    }
  };
  return { ...state, more };
}

/** The row of a session, in whatever list it is. */
export const rowOf = (inbox: Inbox, id: string): Row | undefined => find(inbox, id)?.row;
