import { type RefObject, useEffect, useMemo, useState } from 'react';
import { number } from '../app/format';
import { cx } from '../ui/cx';
import { Dialog } from '../ui/Dialog';
import { Input } from '../ui/Field';
import type { Moves } from './Activity';
import { useHere, useShown } from './hooks';
import s from './jump.module.css';
import { jumps } from './jumps';
import { w } from './words';

const MOST = 300;

/** Prompts, problems, questions, approvals and pictures, found by words or by number. */
export function JumpList({ onClose, moves }: { onClose: () => void; moves: RefObject<Moves | null> }) {
  const { session } = useHere();
  const { turns } = useShown(session);
  const [q, setQ] = useState('');
  const all = useMemo(() => jumps(session, turns), [session, turns]);
  const found = useMemo(() => {
    const word = q.trim().toLowerCase();
    if (!word) return all;
    return all.filter((j) =>
      /^\d+$/.test(word) ? String(j.n).startsWith(word) : j.label.toLowerCase().includes(word),
    );
  }, [all, q]);
  // With nothing typed the newest is what one came from: the list opens on it.
  const [at, setAt] = useState<number>();
  // The dialog gives the focus to its first button when it opens; this comes after.
  useEffect(() => {
    document.querySelector<HTMLInputElement>('[data-jump]')?.focus();
    reveal(document.querySelector<HTMLDivElement>('#jumps [aria-selected=true]'));
  }, []);
  const mark = Math.min(at ?? (q ? 0 : found.length - 1), found.length - 1);
  const shown = window_(found, mark);
  const go = (i: number) => {
    const j = found[i];
    if (!j) return;
    onClose();
    if (j.kind === 'prompt') moves.current?.goToTurn(j.turn);
    else moves.current?.goTo(j.seq);
  };
  return (
    <Dialog open title={w.jump} onClose={onClose}>
      <Input
        label={w.jumpFilter}
        hideLabel
        placeholder={w.jumpFilter}
        value={q}
        data-jump=""
        role="combobox"
        aria-expanded
        aria-controls="jumps"
        aria-activedescendant={found[mark] ? `jump-${mark}` : undefined}
        onChange={(e) => {
          setQ(e.target.value);
          setAt(undefined);
        }}
        onKeyDown={(e) => {
          const by = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0;
          if (by) {
            e.preventDefault();
            setAt(Math.max(0, Math.min(found.length - 1, mark + by)));
          } else if (e.key === 'Enter') {
            e.preventDefault();
            go(mark);
          }
        }}
      />
      <div id="jumps" role="listbox" aria-label={w.jump} className={s.list} tabIndex={-1}>
        {shown.map(({ j, i }) => (
          <div
            key={`${j.seq}-${j.kind}`}
            id={`jump-${i}`}
            role="option"
            aria-selected={i === mark}
            tabIndex={-1}
            ref={i === mark ? reveal : undefined}
            className={cx(s.item, j.kind === 'prompt' ? s.prompt : s.mark, i === mark && s.at)}
            onClick={() => go(i)}
            onKeyDown={(e) => e.key === 'Enter' && go(i)}
          >
            <span className={s.number}>{j.kind === 'prompt' ? number(j.n) : ''}</span>
            <span className={s.label}>{j.label}</span>
          </div>
        ))}
      </div>
      {found.length === 0 && <p className={s.none}>{w.jumpNone(q)}</p>}
    </Dialog>
  );
}

const reveal = (el: HTMLDivElement | null) => el?.scrollIntoView({ block: 'nearest' });

/** Of a long list, what is around the mark. */
function window_<T>(all: readonly T[], mark: number): { j: T; i: number }[] {
  const from = Math.max(0, Math.min(mark - MOST / 2, all.length - MOST));
  return all.slice(from, from + MOST).map((j, k) => ({ j, i: from + k }));
}
