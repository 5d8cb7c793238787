import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useCallback, useEffect, useRef, useState } from 'react';
import { asProblem, type Problem } from '../api/problem';
import type { Row } from '../api/types';
import { setNeeds, useNeeds } from '../app/attention';
import { environmentsQuery } from '../app/environments';
import { whoQuery } from '../app/identity';
import { Page } from '../app/Page';
import { Refused } from '../app/states';
import { t } from '../app/strings';
import { Button } from '../ui/Button';
import { cx } from '../ui/cx';
import { EmptyState } from '../ui/EmptyState';
import { ErrorState } from '../ui/ErrorState';
import { Skeleton } from '../ui/Skeleton';
import { Composer } from './Composer';
import { Filters } from './Filters';
import { FirstRun } from './FirstRun';
import s from './InboxPage.module.css';
import { InboxSection } from './InboxSection';
import { useFilteredLive } from './live';
import { sections } from './model';
import { useInbox } from './useInbox';
import { useInboxKeys } from './useInboxKeys';
import { useTask } from './useTask';
import { w } from './words';

const route = getRouteApi('/');

export function InboxPage() {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/' });
  const user = useQuery(whoQuery).data?.user.handle ?? '';
  const environments = useQuery(environmentsQuery);
  const { query, setRead } = useInbox(search);
  useFilteredLive(search);
  const [failed, setFailed] = useState<{ problem: Problem; again: () => void }>();
  const task = useTask();
  const field = useRef<HTMLInputElement>(null);
  const composer = useRef<HTMLTextAreaElement>(null);

  const onRead = useCallback(
    (row: Row, unread: boolean) => {
      setFailed(undefined);
      setRead(row, unread).catch((error: unknown) =>
        setFailed({ problem: asProblem(error), again: () => onRead(row, unread) }),
      );
    },
    [setRead],
  );
  const inbox = query.data;
  useInboxKeys({ inbox, search: field, composer, onRead });

  const known = environments.data?.items;
  const filtered = Boolean(search.q || search.environment || search.mine);
  const empty = inbox !== undefined && sections.every((name) => inbox[name].items.length === 0);
  const needs = useNeeds();
  const counted = filtered || query.isPlaceholderData ? undefined : inbox?.needs.count;
  useEffect(() => {
    if (counted !== undefined) setNeeds(counted);
  }, [counted]);
  return (
    <Page title={t.pages.inbox} documentTitle={w.title(needs)}>
      <div className={s.inbox}>
        <Composer
          environments={known}
          failed={environments.error ? asProblem(environments.error) : undefined}
          retry={() => void environments.refetch()}
          field={composer}
          task={task}
          onStarted={() => void query.refetch()}
        />
        {!(empty && !filtered) && <Filters search={search} environments={known ?? []} field={field} />}
        {failed && <ErrorState title={w.markFailed} problem={failed.problem} retry={failed.again} />}
        {query.error && <Refused what={w.what} problem={asProblem(query.error)} retry={() => void query.refetch()} />}
        {!inbox && !query.error && <Skeleton lines={5} rows />}
        {inbox && !empty && (
          <div className={cx(s.sections, query.isPlaceholderData && s.old)} aria-busy={query.isPlaceholderData}>
            {sections.map((name) => (
              <InboxSection key={name} name={name} section={inbox[name]} search={search} user={user} onRead={onRead} />
            ))}
          </div>
        )}
        {empty && filtered && (
          <EmptyState title={w.noFit}>
            <Button onClick={() => void navigate({ search: {} })}>{w.clear}</Button>
          </EmptyState>
        )}
        {empty && !filtered && known && !query.isPlaceholderData && (
          <FirstRun
            environments={known}
            onPick={(text) => {
              task.change({ text });
              composer.current?.focus();
            }}
          />
        )}
      </div>
    </Page>
  );
}
