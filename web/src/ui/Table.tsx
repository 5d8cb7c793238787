import type { ReactNode } from 'react';
import { t } from '../app/strings';
import { Button } from './Button';
import { cx } from './cx';
import s from './Table.module.css';

export interface Column<T> {
  name: string;
  cell: (row: T) => ReactNode;
  number?: boolean;
}

/** Wide tables scroll inside their box, which the keyboard reaches. */
export function Table<T>(props: { caption: string; columns: Column<T>[]; rows: T[]; rowKey: (row: T) => string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys
    <section className={s.box} aria-label={props.caption} tabIndex={0}>
      <table className={s.table}>
        <caption className="sr-only">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((c) => (
              <th key={c.name} scope="col" className={cx(c.number && s.number)}>
                {c.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.rowKey(row)}>
              {props.columns.map((c) => (
                <td key={c.name} className={cx(c.number && s.number)}>
                  {c.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The next page of a list, below it. What was there stays. */
export function Pager(props: { shown: number; total: number; more: boolean; busy: boolean; onMore: () => void }) {
  if (!props.more) return null;
  return (
    <div className={s.pager}>
      <Button size="small" busy={props.busy} onClick={props.onMore}>
        {t.more}
      </Button>
      <span className={s.of}>{t.shownOf(props.shown, props.total)}</span>
    </div>
  );
}
