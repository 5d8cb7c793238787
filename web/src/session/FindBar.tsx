import { ChevronDown, ChevronUp, X } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { call, part } from '../api/client';
import { asProblem } from '../api/problem';
import { fields, flag, list, num, str } from '../data/wire';
import { IconButton } from '../ui/Button';
import s from './find.module.css';
import { useHere } from './hooks';
import { plain } from './text';
import { w } from './words';

interface Hit {
  seq: number;
  snippet: string;
}

interface Found {
  q: string;
  hits: Hit[];
  total: number;
  capped: boolean;
  next: string;
  problem: string;
}

const nothing: Found = { q: '', hits: [], total: 0, capped: false, next: '', problem: '' };

/** Finds in the whole log, which the browser cannot see. The same keys once more give the browser's own find. */
export function FindBar({ onClose }: { onClose: () => void }) {
  const { session, goTo } = useHere();
  const field = useRef<HTMLInputElement>(null);
  const [q, setQ] = useState('');
  const [found, setFound] = useState(nothing);
  const [at, setAt] = useState(0);
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    const word = q.trim();
    if (word.length < 2) {
      setFound(nothing);
      return;
    }
    const stop = new AbortController();
    const timer = setTimeout(() => {
      search(session.id, word, '', stop.signal).then((f) => {
        if (stop.signal.aborted) return;
        setFound(f);
        setAt(0);
        if (f.hits[0]) goTo(f.hits[0].seq);
      });
    }, 200);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [q, session, goTo]);
  const step = async (by: number) => {
    let { hits } = found;
    let to = at + by;
    if (to >= hits.length && found.next) {
      const more = await search(session.id, found.q, found.next);
      hits = [...hits, ...more.hits];
      setFound({ ...found, hits, next: more.next, problem: more.problem });
    }
    if (hits.length === 0) return;
    to = (to + hits.length) % hits.length;
    setAt(to);
    goTo(hits[to]?.seq ?? 0);
    // The jump takes the focus to the line; the next press belongs to the field again.
    requestAnimationFrame(() => field.current?.focus({ preventScroll: true }));
  };
  const hit = found.hits[at];
  return (
    <search className={s.bar} aria-label={w.find}>
      <input
        ref={field}
        className={s.field}
        aria-label={w.findPlace}
        placeholder={w.findPlace}
        value={q}
        onChange={(e) => setQ(e.target.value)}
        onKeyDown={(e) => {
          if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'f') e.nativeEvent.stopImmediatePropagation();
          else if (e.key === 'Enter') {
            e.preventDefault();
            void step(e.shiftKey ? -1 : 1);
          } else if (e.key === 'Escape') {
            e.preventDefault();
            onClose();
          }
        }}
      />
      <span className={s.count} role="status">
        {found.problem && w.findFailed(found.problem)}
        {!found.problem && found.q && (found.total > 0 ? w.hits(at + 1, found.total, found.capped) : w.noHits)}
      </span>
      <IconButton icon={ChevronUp} label={w.previous} onClick={() => void step(-1)} />
      <IconButton icon={ChevronDown} label={w.following} onClick={() => void step(1)} />
      <IconButton icon={X} label={w.cancel} onClick={onClose} />
      {hit?.snippet && <p className={s.snippet}>{plain(hit.snippet)}</p>}
    </search>
  );
}

async function search(session: string, q: string, cursor: string, signal?: AbortSignal): Promise<Found> {
  try {
    const body = fields(await call(`/sessions/${part(session)}/search`, { query: { q, cursor }, signal }));
    return {
      q,
      hits: list(body, body.hits ? 'hits' : 'items').map((v) => ({
        seq: num(fields(v), 'seq'),
        snippet: str(fields(v), 'snippet'),
      })),
      total: num(body, 'total'),
      capped: flag(body, 'capped'),
      next: str(body, 'next'),
      problem: '',
    };
  } catch (e) {
    const problem = asProblem(e);
    return { ...nothing, q, problem: problem.code === 'canceled' ? '' : problem.message };
  }
}
