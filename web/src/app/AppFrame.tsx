import { type ReactNode, useState } from 'react';
import { Sheet } from '../ui/Dialog';
import s from './AppFrame.module.css';
import { ConnectionBar } from './ConnectionBar';
import { GlobalKeys } from './GlobalKeys';
import { NavigationContext, Rail } from './Rail';
import { t } from './strings';
import { Watch } from './Watch';

/** What stands around every page: ways past it, the rail, the state of the connection. */
export function AppFrame({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState(false);
  return (
    // The hash belongs to the page (an event of a session), so ways past the rail are buttons.
    <NavigationContext value={() => setOpen(true)}>
      <div className={s.frame}>
        <button type="button" className={s.skip} onClick={() => document.getElementById('content')?.focus()}>
          {t.skipToContent}
        </button>
        <button type="button" className={s.skip} onClick={() => document.getElementById('navigation')?.focus()}>
          {t.skipToNavigation}
        </button>
        <div className={s.rail}>
          <Rail id="navigation" />
        </div>
        <div className={s.main}>
          <ConnectionBar />
          {children}
        </div>
        <Sheet open={open} onClose={() => setOpen(false)} title={t.navigation} side="start">
          <Rail leave={() => setOpen(false)} />
        </Sheet>
        <GlobalKeys />
        <Watch />
      </div>
    </NavigationContext>
  );
}
