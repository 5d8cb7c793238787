import type { ErrorComponentProps } from '@tanstack/react-router';
import { asProblem, type Problem } from '../api/problem';
import { Button } from '../ui/Button';
import { EmptyState } from '../ui/EmptyState';
import { ErrorState } from '../ui/ErrorState';
import { Skeleton } from '../ui/Skeleton';
import { Page } from './Page';
import s from './states.module.css';
import { t } from './strings';

/** Nothing yet, for the moment before the daemon has said who this is. */
export const Blank = () => <div className={s.blank} aria-busy="true" />;

export const NotFound = () => (
  <Page title={t.errors.notFound}>
    <EmptyState title={t.errors.notFound} text={t.errors.notFoundText} heading={false}>
      <a href="/">{t.pages.inbox}</a>
    </EmptyState>
  </Page>
);

export const RoutePending = () => (
  <Page title={t.loading} quiet>
    <div className={s.pending}>
      <Skeleton lines={6} />
    </div>
  </Page>
);

/** A page that failed: the rest of the shell goes on. */
export function RouteError({ error, reset }: ErrorComponentProps) {
  return (
    <Page title={t.errors.crashed}>
      <div className={s.pending}>
        <ErrorState title={t.errors.crashed} problem={asProblem(error)} retry={reset} />
      </div>
    </Page>
  );
}

/** What a refused read means: not there, removed, not yours and not reachable are different things. */
export function Refused({ what, problem, retry }: { what: string; problem: Problem; retry: () => void }) {
  switch (problem.code) {
    case 'not_found':
      return <EmptyState title={t.errors.notFound} text={problem.message} />;
    case 'gone':
      return <EmptyState title={t.errors.gone} text={t.errors.goneText} />;
    case 'denied':
      return <EmptyState title={t.errors.forbidden} text={problem.hint || t.errors.forbiddenText} />;
    default:
      return <ErrorState title={t.errors.what(what)} problem={problem} retry={retry} />;
  }
}

export function Offline({ problem, retry }: { problem: Problem; retry: () => void }) {
  const offline = problem.passes;
  return (
    <main className={s.alone}>
      <h1>{offline ? t.errors.offline : t.errors.crashed}</h1>
      <p>{offline ? t.errors.offlineText : problem.message}</p>
      {problem.hint && <p>{problem.hint}</p>}
      <Button onClick={retry}>{t.retry}</Button>
    </main>
  );
}
