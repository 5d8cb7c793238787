import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Inbox, Keyboard, LogOut, Menu, Search, Settings } from 'lucide-react';
import { createContext, useContext, useId } from 'react';
import { call } from '../api/client';
import { IconButton } from '../ui/Button';
import { Mark } from '../ui/Mark';
import { useNeeds } from './attention';
import { environmentsQuery } from './environments';
import { number } from './format';
import { openPalette, openShortcuts } from './GlobalKeys';
import { nameOf, whoQuery } from './identity';
import s from './Rail.module.css';
import { signedOut } from './signin';
import { t } from './strings';

export const NavigationContext = createContext<() => void>(() => {});

export function OpenNavigation() {
  const open = useContext(NavigationContext);
  return <IconButton icon={Menu} label={t.openNavigation} className={s.open} onClick={open} />;
}

/** The ways through the page. On a phone it stands in a sheet, and `leave` closes that. */
export function Rail({ id, leave }: { id?: string; leave?: () => void }) {
  const who = useQuery(whoQuery).data;
  const environments = useQuery(environmentsQuery).data?.items ?? [];
  const needs = useNeeds();
  const own = useId();
  return (
    <nav id={id} tabIndex={-1} className={s.rail} aria-label={t.navigation} data-region={id ? '' : undefined}>
      <Link to="/" className={s.brand} onClick={leave} activeProps={{}}>
        <Mark />
        {t.product}
      </Link>
      <ul className={s.list}>
        <li>
          <Link
            to="/"
            className={s.item}
            activeProps={{ className: s.active ?? '' }}
            activeOptions={exact}
            onClick={leave}
          >
            <Inbox size={18} aria-hidden="true" />
            {t.pages.inbox}
            {needs > 0 && (
              <span className={s.count} title={t.needs(needs)}>
                {number(needs)}
                <span className="sr-only"> {t.needYou}</span>
              </span>
            )}
          </Link>
        </li>
      </ul>
      {environments.length > 1 && (
        <div>
          <p className={s.heading} id={`${own}-environments`}>
            {t.environments}
          </p>
          <ul className={s.list} aria-labelledby={`${own}-environments`}>
            {environments.slice(0, 12).map((e) => (
              <li key={e.id}>
                <Link
                  to="/"
                  search={{ environment: e.name }}
                  className={s.item}
                  activeProps={{ className: s.active ?? '' }}
                  activeOptions={withSearch}
                  onClick={leave}
                >
                  <span className={s.text}>{e.name}</span>
                </Link>
              </li>
            ))}
          </ul>
        </div>
      )}
      <ul className={s.foot}>
        <li>
          <button
            type="button"
            className={s.item}
            onClick={() => {
              leave?.();
              openPalette();
            }}
          >
            <Search size={18} aria-hidden="true" />
            {t.commands}
          </button>
        </li>
        <li>
          <button
            type="button"
            className={s.item}
            onClick={() => {
              leave?.();
              openShortcuts();
            }}
          >
            <Keyboard size={18} aria-hidden="true" />
            {t.keys.shortcuts}
          </button>
        </li>
        <li>
          <Link
            to="/settings/appearance"
            className={s.item}
            activeProps={{ className: s.active ?? '' }}
            onClick={leave}
          >
            <Settings size={18} aria-hidden="true" />
            {t.pages.settings}
          </Link>
        </li>
        {who && (
          <li className={s.who}>
            <span className={s.name} title={t.signedInAs(nameOf(who.user))}>
              {nameOf(who.user)}
            </span>
            <IconButton icon={LogOut} label={t.signOut} onClick={() => void signOut()} />
          </li>
        )}
      </ul>
    </nav>
  );
}

// The inbox without filters, and the inbox with exactly one.
const exact = { exact: true, includeSearch: true, explicitUndefined: true };
const withSearch = { exact: true, includeSearch: true };

async function signOut() {
  try {
    await call('/logout', { method: 'POST' });
  } finally {
    signedOut();
  }
}
