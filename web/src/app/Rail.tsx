import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Inbox, Keyboard, LogOut, Menu, Search, Settings } from 'lucide-react';
import { createContext, useContext } from 'react';
import { call } from '../api/client';
import { IconButton } from '../ui/Button';
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
  return (
    <nav id={id} tabIndex={-1} className={s.rail} aria-label={t.navigation} data-region={id ? '' : undefined}>
      <Link to="/" className={s.brand} onClick={leave} activeProps={{}}>
        <img src={icon} alt="" width={20} height={20} />
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
          </Link>
        </li>
      </ul>
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

import icon from './icon.svg';

const exact = { exact: true, includeSearch: false };

async function signOut() {
  try {
    await call('/logout', { method: 'POST' });
  } finally {
    signedOut();
  }
}
