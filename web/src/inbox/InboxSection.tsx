import { memo, useMemo } from 'react';
import type { Row, Section, SectionName } from '../api/types';
import { number } from '../app/format';
import type { InboxSearch } from '../app/search';
import { ErrorState } from '../ui/ErrorState';
import { Pager } from '../ui/Table';
import { InboxRow } from './InboxRow';
import s from './InboxSection.module.css';
import { nest } from './model';
import { useMore } from './useInbox';
import { w } from './words';

interface Props {
  name: SectionName;
  section: Section;
  search: InboxSearch;
  user: string;
  onRead: (row: Row, unread: boolean) => void;
}

export const InboxSection = memo(function InboxSection({ name, section, search, user, onRead }: Props) {
  const { busy, problem, more } = useMore(search, name);
  const rows = useMemo(() => nest(section.items), [section.items]);
  if (rows.length === 0 && name !== 'needs') return null;
  return (
    <section className={s.section} aria-labelledby={`section-${name}`} tabIndex={-1} data-section={name}>
      <h2 className={s.heading} id={`section-${name}`}>
        {w.sections[name]} <span className={s.count}>{number(section.count)}</span>
      </h2>
      {rows.length === 0 ? (
        <p className={s.nothing}>{w.nothingNeeds}</p>
      ) : (
        <ul className={s.rows}>
          {rows.map(({ row, child }) => (
            <InboxRow
              key={row.session.id}
              row={row}
              child={child}
              own={row.session.owner.handle === user}
              onRead={onRead}
            />
          ))}
        </ul>
      )}
      {problem && <ErrorState title={w.moreFailed} problem={problem} retry={() => void more()} />}
      {!problem && (
        <Pager
          shown={section.items.length}
          total={section.count}
          more={Boolean(section.next)}
          busy={busy}
          onMore={() => void more()}
        />
      )}
    </section>
  );
});
