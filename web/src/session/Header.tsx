import { ListTree, PanelRight, Square } from 'lucide-react';
import { useState } from 'react';
import type { View as StateView } from '../api/types';
import { duration, money } from '../app/format';
import type { Shown } from '../data/session';
import { called, type Fields, fields, flag, num, str } from '../data/wire';
import { Avatars } from '../ui/Avatar';
import { Button, IconButton } from '../ui/Button';
import { StateWord } from '../ui/StateWord';
import { goOn, stop } from './effects';
import s from './header.module.css';
import { useHere } from './hooks';
import { plain } from './text';
import { useWide } from './useWide';
import { w } from './words';

const RUNS = new Set(['queued', 'starting', 'working', 'needs_you', 'paused', 'stopping']);

export function Header(p: { title: string; shown: Shown; onJump: () => void; onInspector: () => void; open: boolean }) {
  const { session } = useHere();
  const { page, view } = p.shown;
  const word = str(view, 'word');
  const record = fields(page.session);
  const [busy, setBusy] = useState(false);
  const act = async (what: (s: typeof session) => Promise<string>) => {
    setBusy(true);
    await what(session);
    setBusy(false);
  };
  const people = watching(p.shown);
  const roomy = useWide('(min-width: 768px)');
  const state = word && (
    <span className={s.state} title={plain(str(view, 'reason'))} data-word={word}>
      <StateWord view={view as unknown as StateView} />
    </span>
  );
  return (
    <>
      <div className={s.titles}>
        <h1 className={s.title} title={plain(p.title)}>
          {plain(p.title)}
        </h1>
        <div className={s.second}>
          {!roomy && state}
          <Origin page={page} />
        </div>
      </div>
      {roomy && state}
      <div className={s.end}>
        {people.length > 0 && (
          <span className={s.people} title={w.viewing(people.map(called).join(', '))}>
            <Avatars people={people} most={3} />
          </span>
        )}
        <Meter page={page} />
        {RUNS.has(word) && !roomy && (
          <IconButton
            icon={Square}
            label={word === 'stopping' ? w.stopping : w.stop}
            aria-disabled={busy || word === 'stopping'}
            onClick={() => !busy && word !== 'stopping' && void act(stop)}
          />
        )}
        {RUNS.has(word) && roomy && (
          <Button
            size="small"
            icon={Square}
            busy={busy}
            blocked={word === 'stopping' && w.stopping}
            onClick={() => void act(stop)}
          >
            {w.stop}
          </Button>
        )}
        {(word === 'stopped' || word === 'paused' || flag(record, 'held')) && (
          <Button size="small" busy={busy} onClick={() => void act(goOn)}>
            {w.goOn}
          </Button>
        )}
        <IconButton icon={ListTree} label={w.jump} onClick={p.onJump} />
        <IconButton
          icon={PanelRight}
          label={p.open ? w.hideInspector : w.showInspector}
          pressed={p.open}
          onClick={p.onInspector}
        />
      </div>
    </>
  );
}

/** Environment, how old its snapshot is, how the session was started from it and why not better. */
function Origin({ page }: { page: Fields }) {
  const snapshot = fields(page.snapshot);
  const parts = [
    plain(str(fields(page.environment), 'name')),
    num(snapshot, 'age_ns') > 0 ? w.snapshotAge(duration(num(snapshot, 'age_ns'))) : '',
    w.started[str(snapshot, 'started_from')] ?? '',
    plain(str(snapshot, 'fallback')),
  ].filter(Boolean);
  const text = parts.join(' · ');
  return (
    <span className={s.origin} title={text}>
      {text}
    </span>
  );
}

/** What it has cost, and how much of what it may. */
function Meter({ page }: { page: Fields }) {
  const record = fields(page.session);
  const cost = fields(record.cost);
  const spent = num(cost, 'known_microusd');
  const limit = num(fields(record.budget), 'microusd');
  if (spent === 0 && limit === 0) return null;
  const said = flag(cost, 'unknown') ? w.atLeast(money(spent)) : money(spent);
  return (
    <span className={s.meter}>
      <span className="num">{limit > 0 ? w.spentOf(said, money(limit)) : said}</span>
      {limit > 0 && (
        <meter
          className={s.bar}
          min={0}
          max={limit}
          value={Math.min(spent, limit)}
          high={limit * 0.8}
          aria-label={w.budget}
        />
      )}
    </span>
  );
}

function watching(shown: Shown) {
  const seen = new Map<string, { handle: string; name: string }>();
  for (const p of shown.presence) {
    const who = fields(p.user);
    const handle = str(who, 'handle');
    if (handle) seen.set(handle, { handle, name: str(who, 'name') });
  }
  return [...seen.values()];
}
