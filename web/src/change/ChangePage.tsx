import { getRouteApi } from '@tanstack/react-router';
import { asProblem } from '../api/problem';
import type { Word } from '../api/types';
import { Page } from '../app/Page';
import { Refused } from '../app/states';
import { t } from '../app/strings';
import { plain } from '../session/text';
import { Badge } from '../ui/Badge';
import { Disclosure } from '../ui/Disclosure';
import { Skeleton } from '../ui/Skeleton';
import { RelativeTime } from '../ui/Time';
import { Checks } from './Checks';
import s from './change.module.css';
import { Decide } from './Decide';
import { Files } from './Files';
import { type ChangePageData, useChange } from './model';
import { Pictures } from './Pictures';
import { w } from './words';

const route = getRouteApi('/changes/$id');

/** One change: what was proven about it, what it means, and what it is, in the order in which a person decides. */
export function ChangePage() {
  const { id } = route.useParams();
  const page = useChange(id);
  if (page.error && !page.data) {
    return (
      <Page title={w.change}>
        <div className={s.sheet}>
          <Refused what={w.change} problem={asProblem(page.error)} retry={() => void page.refetch()} />
        </div>
      </Page>
    );
  }
  if (!page.data) {
    return (
      <Page title={w.change} quiet>
        <div className={s.sheet}>
          <Skeleton lines={8} />
        </div>
      </Page>
    );
  }
  const { change } = page.data;
  return (
    <Page title={w.title(change.number, plain(change.title))}>
      <div className={s.sheet}>
        <Facts page={page.data} />
        <Verdict page={page.data} />
        <Decide id={id} page={page.data} />
        <Meaning page={page.data} />
        <Checks page={page.data} />
        <Pictures page={page.data} />
        <Files id={id} page={page.data} />
      </div>
    </Page>
  );
}

function Facts({ page }: { page: ChangePageData }) {
  const { change, session } = page;
  return (
    <p className={s.facts}>
      <Badge>{w.states[change.state] ?? plain(change.state)}</Badge>
      <span>{w.from(plain(change.branch), plain(change.base))}</span>
      {page.environment && <span>{plain(page.environment.name)}</span>}
      <RelativeTime time={change.updated} />
      {session && <a href={`/s/${encodeURIComponent(session.id)}`}>{w.session}</a>}
    </p>
  );
}

const tones: Record<string, string | undefined> = { proven: s.ok, broken: s.bad, unproven: s.unp };

function Verdict({ page }: { page: ChangePageData }) {
  const { verdict } = page;
  const word = verdict.verdict ?? '';
  const known = word !== '';
  return (
    <section className={`${s.verdict} ${tones[word] ?? ''}`} aria-label={w.verdictLabel}>
      <h2>{known ? t.stateWord(word as Word) : w.noVerdict}</h2>
      {!known && <p>{w.noVerdictWhy}</p>}
      {verdict.stale && <p className={s.ask}>{w.stale}</p>}
      {verdict.missing && <p className={s.ask}>{w.missing}</p>}
      {verdict.reasons.map((r) => (
        <p key={r}>{plain(r)}</p>
      ))}
      {verdict.not_shown.length > 0 && (
        <Disclosure summary={w.notShown(verdict.not_shown.length)}>
          <ul className={s.plainList}>
            {verdict.not_shown.map((r) => (
              <li key={r}>{plain(r)}</li>
            ))}
          </ul>
        </Disclosure>
      )}
      {verdict.evidence && !verdict.missing && (
        <p>
          <a href={`/api/v1/evidence/${encodeURIComponent(verdict.evidence)}/bundle`} download>
            {w.evidence}
          </a>
        </p>
      )}
    </section>
  );
}

function Meaning({ page }: { page: ChangePageData }) {
  return (
    <section aria-label={w.meaning}>
      <h2>{w.meaning}</h2>
      {page.meaning.length === 0 && <p className={s.quiet}>{w.noMeaning}</p>}
      <ul className={s.rows}>
        {page.meaning.map((m) => (
          <li key={`${m.kind} ${m.path ?? ''} ${m.line ?? ''} ${m.text}`}>
            <Badge tone={m.risk === 'stop' ? 'bad' : m.risk === 'look' ? 'ask' : 'idle'}>
              {w.risks[m.risk] ?? plain(m.risk)}
            </Badge>
            <span>{plain(m.text)}</span>
            {m.path && (
              <code>
                {plain(m.path)}
                {m.line ? `:${m.line}` : ''}
              </code>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
