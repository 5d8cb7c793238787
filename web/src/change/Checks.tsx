import { plain } from '../session/text';
import { Badge } from '../ui/Badge';
import { Duration } from '../ui/Time';
import s from './change.module.css';
import { type ChangePageData, fileOf, type PageCheck } from './model';
import { w } from './words';

// From what was to what is: the base, with the new tests, the branch with the old tests, the branch.
const cells = ['A', 'D', 'C', 'B'] as const;
const mark: Record<string, string> = { green: '✓', red: '✗', mixed: '±', skip: '–', '-': '' };

/** Every check in the four cells of the proof, and the cases that say something. */
export function Checks({ page }: { page: ChangePageData }) {
  const evidence = page.verdict.evidence ?? '';
  return (
    <section aria-label={w.checks}>
      <h2>{w.checks}</h2>
      {page.checks.length === 0 && <p className={s.quiet}>{w.noChecks}</p>}
      {page.checks.map((c) => (
        <Check key={c.check} check={c} evidence={evidence} />
      ))}
    </section>
  );
}

function Check({ check, evidence }: { check: PageCheck; evidence: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys
    <section className={s.box} aria-label={plain(check.check)} tabIndex={0}>
      <table className={s.table}>
        <thead>
          <tr>
            <th scope="col">{plain(check.check)}</th>
            {cells.map((name) => (
              <th key={name} scope="col">
                {w.cells[name]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row" className={s.quiet}>
              {w.kept(check.kept)}
            </th>
            {cells.map((name) => {
              const cell = check.cells[name];
              if (!cell) return <td key={name}>–</td>;
              const text = w.results[cell.result] ?? plain(cell.result);
              return (
                <td key={name}>
                  <span className={cell.result === 'green' ? s.okText : cell.result === 'red' ? s.badText : s.askText}>
                    {text}
                  </span>{' '}
                  <span className={s.quiet}>
                    <Duration ns={cell.duration_ns} />
                  </span>
                  {cell.log && evidence && (
                    <>
                      {' '}
                      <a href={fileOf(evidence, cell.log.digest)} download>
                        {w.log}
                      </a>
                    </>
                  )}
                </td>
              );
            })}
          </tr>
          {check.cases.map((c) => (
            <tr key={c.id}>
              <th scope="row">
                <Badge tone={c.class === 'fixed' ? 'ok' : c.class === 'broken' || c.class === 'gone' ? 'bad' : 'idle'}>
                  {w.classes[c.class] ?? plain(c.class)}
                </Badge>{' '}
                <span>{plain(c.name)}</span>
                {c.message && <span className={s.message}>{plain(c.message)}</span>}
              </th>
              {cells.map((name) => {
                const result = c.cells[name] ?? '-';
                return (
                  <td key={name} className={result === 'green' ? s.okText : result === 'red' ? s.badText : s.askText}>
                    <span aria-hidden="true">{mark[result] ?? ''}</span> {w.results[result] ?? plain(result)}
                  </td>
                );
              })}
            </tr>
          ))}
          {check.more ? (
            <tr>
              <td colSpan={5} className={s.quiet}>
                {w.moreCases(check.more)}
              </td>
            </tr>
          ) : null}
        </tbody>
      </table>
    </section>
  );
}
