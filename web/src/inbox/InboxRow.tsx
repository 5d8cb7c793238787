import { Link } from '@tanstack/react-router';
import { Check, Circle } from 'lucide-react';
import { memo, useMemo } from 'react';
import type { Row } from '../api/types';
import { Avatar } from '../ui/Avatar';
import { Badge } from '../ui/Badge';
import { IconButton } from '../ui/Button';
import { cx } from '../ui/cx';
import { StateWord } from '../ui/StateWord';
import { Duration, Money, RelativeTime } from '../ui/Time';
import s from './InboxRow.module.css';
import { w } from './words';

interface Props {
  row: Row;
  child: boolean;
  own: boolean;
  onRead: (row: Row, unread: boolean) => void;
}

/** One session. It renders again only when its own row is another. */
export const InboxRow = memo(function InboxRow({ row, child, own, onRead }: Props) {
  const { session, change } = row;
  const view = session.view;
  // The time that a row was given counts from when it came.
  const came = useMemo(() => (row ? Date.now() : 0), [row]);
  const title = session.title || w.untitled;
  return (
    <li className={cx(s.row, row.unread && s.unread, child && s.child)} data-session={session.id}>
      <Link to="/s/$id" params={{ id: session.id }} className={s.link} data-row={session.id} preload="intent">
        {row.unread && (
          <span className={s.dot}>
            <span className="sr-only">{w.unread}: </span>
          </span>
        )}
        <span className={s.title}>{title}</span>
      </Link>
      <span className={s.state}>{view && <StateWord view={view} />}</span>
      {view?.reason && (
        <p className={s.reason}>
          {view.reason}
          {view.action && <span className={s.action}> {view.action}</span>}
        </p>
      )}
      <p className={s.meta}>
        {!own && (
          <span className={s.who}>
            <Avatar person={session.owner} size="small" />
          </span>
        )}
        <span className={s.environment}>{row.environment_name}</span>
        {session.selection && <Badge>{w.several}</Badge>}
        {change && (change.added > 0 || change.removed > 0) && (
          <span className={s.lines} title={w.lines(change.added, change.removed, change.files)}>
            <span className={s.added}>{w.added(change.added)}</span>{' '}
            <span className={s.removed}>{w.removed(change.removed)}</span>
          </span>
        )}
        {(session.cost.known_microusd > 0 || session.cost.unknown) && <Money cost={session.cost} />}
        {row.running ? (
          <Duration ns={row.elapsed_ns} since={came} />
        ) : (
          <RelativeTime time={view?.since || session.updated} />
        )}
      </p>
      <IconButton
        icon={row.unread ? Check : Circle}
        size={row.unread ? 18 : 12}
        label={row.unread ? w.markRead : w.markUnread}
        className={s.mark}
        onClick={() => onRead(row, !row.unread)}
      />
    </li>
  );
});
