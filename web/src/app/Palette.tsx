import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, useEffect, useId, useMemo, useState } from 'react';
import { call } from '../api/client';
import type { Inbox } from '../api/types';
import { cx } from '../ui/cx';
import { Dialog } from '../ui/Dialog';
import { Key } from '../ui/Key';
import { StateWord } from '../ui/StateWord';
import { fits } from './fits';
import { openShortcuts } from './GlobalKeys';
import { setLook } from './look';
import s from './Palette.module.css';
import { t } from './strings';
import { useBindings } from './useKeys';

interface Entry {
  id: string;
  group: string;
  label: string;
  keys?: string;
  aside?: React.ReactNode;
  run: () => void;
}

function useLate<T>(value: T, ms: number): T {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return late;
}

/** Everything by its name: pages, what can be done here, and sessions found by the daemon. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const bindings = useBindings();
  const id = useId();
  const q = useLate(text.trim(), 200);
  const sessions = useQuery({
    queryKey: ['palette', q],
    queryFn: ({ signal }) => call<Inbox>('/inbox', { query: { q, limit: 5 }, signal }),
    placeholderData: (before) => before,
  });

  const entries = useMemo(() => {
    const list: Entry[] = [];
    const add = (group: string, label: string, run: () => void, more: Partial<Entry> = {}) =>
      list.push({ id: `${group}:${more.id ?? label}`, group, label, run, ...more });
    const { pages, commands } = t.palette;
    add(pages, t.pages.inbox, () => void navigate({ to: '/' }), { keys: 'g i' });
    add(pages, t.pages.settings, () => void navigate({ to: '/settings/appearance' }));
    for (const b of bindings) {
      if (b.hidden || b.group === t.keys.groups.list || b.keys === 'Mod+k' || b.keys === 'g i') continue;
      const run = () => b.run(new globalThis.KeyboardEvent('keydown'));
      add(commands, b.label, b.keys === '?' ? openShortcuts : run, { keys: b.keys });
    }
    for (const theme of ['system', 'light', 'dark'] as const) {
      add(commands, t.palette.themeTo(t.themes[theme]), () => setLook({ theme }));
    }
    const shown = list.filter((e) => fits(e.label, text));
    const rows = sessions.data ? Object.values(sessions.data).flatMap((section) => section.items) : [];
    for (const row of rows.slice(0, 8)) {
      shown.push({
        id: row.session.id,
        group: t.palette.sessions,
        label: row.session.title || row.session.id,
        aside: row.session.view && <StateWord view={row.session.view} />,
        run: () => void navigate({ to: '/s/$id', params: { id: row.session.id } }),
      });
    }
    return shown;
  }, [bindings, navigate, sessions.data, text]);

  const now = Math.min(at, Math.max(0, entries.length - 1));
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    // The dialog goes first: what is run may open another, or set the focus.
    onClose();
    setTimeout(entry.run);
  };
  const move = (to: number) => {
    setAt(to);
    requestAnimationFrame(() => document.getElementById(`${id}-${to}`)?.scrollIntoView({ block: 'nearest' }));
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.nativeEvent.isComposing) return;
    const n = entries.length;
    const steps: Record<string, number> = { ArrowDown: (now + 1) % n, ArrowUp: (now + n - 1) % n };
    const to = steps[e.key];
    if (to !== undefined && n > 0) {
      e.preventDefault();
      move(to);
    } else if (e.key === 'Enter') {
      e.preventDefault();
      run(entries[now]);
    }
  };

  return (
    <Dialog open onClose={onClose} title={t.commands} bare>
      <input
        className={s.input}
        role="combobox"
        aria-label={t.palette.label}
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={entries[now] ? `${id}-${now}` : undefined}
        aria-autocomplete="list"
        placeholder={t.palette.label}
        value={text}
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        // The dialog moves the focus here.
        autoFocus
        onChange={(e) => {
          setText(e.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div className={s.list} id={`${id}-list`} role="listbox" aria-label={t.commands}>
        {entries.map((entry, i) => (
          <div key={entry.id} role="presentation">
            {entry.group !== entries[i - 1]?.group && (
              <div className={s.group} role="presentation">
                {entry.group}
              </div>
            )}
            {/* biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys */}
            {/* biome-ignore lint/a11y/useFocusableInteractive: named by aria-activedescendant */}
            <div
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === now}
              className={cx(s.option, i === now && s.now)}
              onClick={() => run(entry)}
              onPointerMove={() => i !== now && setAt(i)}
            >
              <span className={s.label}>{entry.label}</span>
              {entry.aside}
              {entry.keys && <Key keys={entry.keys} />}
            </div>
          </div>
        ))}
      </div>
      {entries.length === 0 && <p className={s.none}>{t.palette.none(text)}</p>}
    </Dialog>
  );
}
