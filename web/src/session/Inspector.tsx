import { type ReactNode, useEffect } from 'react';
import { duration, money, number } from '../app/format';
import type { Shown } from '../data/session';
import type { Turn } from '../data/turns';
import { called, type Fields, fields, flag, list, num, str, strings } from '../data/wire';
import { Avatar } from '../ui/Avatar';
import { cx } from '../ui/cx';
import { Select } from '../ui/Field';
import { Approvals } from './Approvals';
import type { Density } from './folds';
import { useEvent, useFolds, useHere, useShown, useTurn } from './hooks';
import s from './inspector.module.css';
import { toneOf } from './rowViews';
import { plain } from './text';
import { w } from './words';

/** What one wants to know of a session beside what happened, in one order; what is not there is not shown. */
export function Inspector() {
  const { session } = useHere();
  const shown = useShown(session);
  const turn = useTurn(shown.turns.at(-1) ?? '');
  const { page } = shown;
  const evidence = fields(page.evidence);
  const change = { ...fields(page.change), ...fields(page.change_brief) };
  const proof = useProof(turn);
  const record = fields(page.session);
  const verdict = str(evidence, 'verdict') || str(change, 'verdict');
  return (
    <div className={s.all}>
      {verdict && (
        <Part title={w.verdict}>
          <p className={cx(s.verdict, s[toneOf(verdict)])}>{w.verdictNames[verdict] ?? plain(verdict)}</p>
          {strings(proof, 'reasons').map((r) => (
            <p key={r}>{plain(r)}</p>
          ))}
          {strings(proof, 'not_shown').length > 0 && (
            <details>
              <summary className={s.more}>{w.notShown}</summary>
              <ul className={s.list}>
                {strings(proof, 'not_shown').map((r) => (
                  <li key={r}>{plain(r)}</li>
                ))}
              </ul>
            </details>
          )}
        </Part>
      )}
      <NeedsYou shown={shown} />
      {str(change, 'id') && (
        <Part title={w.changeTitle}>
          <p>
            <a href={`/changes/${encodeURIComponent(str(change, 'id'))}`}>
              #{number(num(change, 'number'))} {plain(str(change, 'title'))}
            </a>
          </p>
          <p className={s.quiet}>
            {[plain(str(change, 'state')), num(change, 'files') > 0 && w.files(num(change, 'files'))]
              .filter(Boolean)
              .join(' · ')}
            {(num(change, 'added') > 0 || num(change, 'removed') > 0) &&
              ` · +${number(num(change, 'added'))} −${number(num(change, 'removed'))}`}
          </p>
        </Part>
      )}
      {turn && turn.nodes.length > 0 && (
        <Part title={w.plan(turn.nodes.filter((n) => n.state !== 'running').length, turn.nodes.length)}>
          <ol className={s.steps}>
            {turn.nodes.slice(-12).map((n) => (
              <li key={n.seq} className={cx(n.state === 'running' && s.now)}>
                <span>
                  {plain(n.title || n.node)}
                  {n.number > 1 && ` (${w.attempt(n.number)})`}
                </span>
                <span className={s.quiet}>
                  {n.state === 'running'
                    ? w.running
                    : `${plain(n.result)} ${n.duration > 0 ? duration(n.duration) : ''}`}
                </span>
              </li>
            ))}
          </ol>
        </Part>
      )}
      <Files page={page} />
      {str(evidence, 'id') && (
        <Part title={w.evidence}>
          <p>
            <a href={`/api/v1/evidence/${encodeURIComponent(str(evidence, 'id'))}/bundle`} download>
              {w.downloadEvidence}
            </a>
          </p>
          <p className={s.id}>{str(evidence, 'id')}</p>
        </Part>
      )}
      <CostPart record={record} />
      <Machine page={page} record={record} />
      <Children page={page} />
      <People page={page} />
      <DensityPart />
    </div>
  );
}

/** What the newest verdict of the turn says; it is asked for, since the evidence is known by its name alone. */
function useProof(turn: Turn | undefined): Fields {
  const { session } = useHere();
  const seq = turn?.marks.findLast((m) => m.kind === 'verdict')?.seq ?? 0;
  const event = useEvent(seq);
  useEffect(() => {
    if (seq > 0 && !event) session.need({ from: seq, to: seq });
  }, [session, seq, event]);
  return event?.data ?? {};
}

/** How much of the turns is open; kept for all sessions. */
function DensityPart() {
  const { folds } = useHere();
  useFolds(folds);
  return (
    <Select
      label={w.density}
      value={folds.density}
      options={(['closed', 'smart', 'open'] as const).map((value) => ({ value, label: w.densities[value] }))}
      onChange={(e) => folds.setDensity(e.target.value as Density)}
    />
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={s.part}>
      <h2 className={s.title}>{title}</h2>
      {children}
    </section>
  );
}

function NeedsYou({ shown }: { shown: Shown }) {
  const word = str(shown.view, 'word');
  if (word !== 'needs_you' && word !== 'paused') return null;
  return (
    <Part title={w.needsYou}>
      <p>{plain(str(shown.view, 'reason'))}</p>
      <Approvals seq={shown.seq} />
      {str(shown.view, 'action') && <p className={s.quiet}>{plain(str(shown.view, 'action'))}</p>}
    </Part>
  );
}

function Files({ page }: { page: Fields }) {
  const files = list(page, 'files').map(fields);
  if (files.length === 0) return null;
  return (
    <Part title={w.filesTitle}>
      <ul className={s.list}>
        {files.slice(0, 50).map((f) => (
          <li key={str(f, 'path')} className={s.file}>
            {plain(str(f, 'path'))}
          </li>
        ))}
      </ul>
    </Part>
  );
}

function CostPart({ record }: { record: Fields }) {
  const cost = fields(record.cost);
  const usage = fields(record.usage);
  const budget = fields(record.budget);
  if (num(usage, 'calls') === 0 && num(cost, 'known_microusd') === 0) return null;
  const spent = money(num(cost, 'known_microusd'));
  return (
    <Part title={w.cost}>
      <dl className={s.pairs}>
        <dt>Money</dt>
        <dd>
          {flag(cost, 'unknown') ? w.atLeast(spent) : spent}
          {num(budget, 'microusd') > 0 && ` of ${money(num(budget, 'microusd'))}`}
        </dd>
        <dt>Time at work</dt>
        <dd>
          {duration(num(record, 'active_ns'))}
          {num(budget, 'wall_clock_ns') > 0 && ` of ${duration(num(budget, 'wall_clock_ns'))}`}
        </dd>
        <dt>Requests</dt>
        <dd>{number(num(usage, 'calls'))}</dd>
        <dt>Tokens in, out</dt>
        <dd>
          {number(num(usage, 'input') + num(usage, 'cache_read') + num(usage, 'cache_write'))},{' '}
          {number(num(usage, 'output'))}
        </dd>
      </dl>
    </Part>
  );
}

function Machine({ page, record }: { page: Fields; record: Fields }) {
  const snapshot = fields(page.snapshot);
  const pairs: [string, string][] = [
    ['Name', plain(str(fields(page.environment), 'name'))],
    ['Model', plain(str(record, 'model'))],
    ['Blueprint', plain(str(record, 'blueprint'))],
    ['Base', plain(str(record, 'base'))],
    ['Branch', plain(str(record, 'branch'))],
    ['Snapshot', num(snapshot, 'age_ns') > 0 ? w.snapshotAge(duration(num(snapshot, 'age_ns'))) : ''],
    ['Start', w.started[str(snapshot, 'started_from')] ?? ''],
    ['Why', plain(str(snapshot, 'fallback'))],
  ];
  return (
    <Part title={w.environment}>
      <dl className={s.pairs}>
        {pairs
          .filter(([, v]) => v)
          .map(([k, v]) => (
            <div key={k}>
              <dt>{k}</dt>
              <dd>{v}</dd>
            </div>
          ))}
      </dl>
    </Part>
  );
}

function Children({ page }: { page: Fields }) {
  const children = list(page, 'children').map(fields);
  if (children.length === 0) return null;
  return (
    <Part title={w.children}>
      <ul className={s.list}>
        {children.slice(0, 50).map((c) => (
          <li key={str(c, 'id')}>
            <a href={`/s/${encodeURIComponent(str(c, 'id'))}`}>{plain(str(c, 'title')) || str(c, 'id')}</a>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function People({ page }: { page: Fields }) {
  const people = list(page, 'people').map(fields);
  if (people.length === 0) return null;
  return (
    <Part title={w.people}>
      <ul className={s.list}>
        {people.map((p) => {
          const who = { handle: str(p, 'handle'), name: str(p, 'name') };
          return (
            <li key={who.handle} className={s.person}>
              <Avatar person={who} size="small" /> {called(who)}
            </li>
          );
        })}
      </ul>
    </Part>
  );
}
