import type { Role, Word } from '../api/types';

// Signs of states: each has a shape of its own, so that colour never says it alone.
const parts: Record<string, React.ReactNode> = {
  ring: <circle cx="8" cy="8" r="5.5" />,
  ring_quarter: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 8V2.5A5.5 5.5 0 0 1 13.5 8Z" fill="currentColor" stroke="none" />
    </>
  ),
  ring_half: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 2.5a5.5 5.5 0 0 1 0 11Z" fill="currentColor" stroke="none" />
    </>
  ),
  ring_dashed: <circle cx="8" cy="8" r="5.5" strokeDasharray="2.6 2.4" />,
  diamond: <path d="M8 1.8 14.2 8 8 14.2 1.8 8Z" fill="currentColor" />,
  bars: <path d="M5.5 3.5v9M10.5 3.5v9" strokeWidth="2.6" />,
  square: <rect x="3.5" y="3.5" width="9" height="9" rx="1" />,
  check: <path d="m2.8 8.6 3.4 3.6 7-8" strokeWidth="2.2" />,
  check_open: (
    <>
      <circle cx="8" cy="8" r="6" strokeDasharray="2 1.8" />
      <path d="m5.4 8.2 1.9 1.9 3.4-4" />
    </>
  ),
  cross: <path d="m3.6 3.6 8.8 8.8m0-8.8-8.8 8.8" strokeWidth="2.2" />,
  hand: (
    <path d="M4.6 8.2V5a1 1 0 0 1 2 0v-1.6a1 1 0 0 1 2 0v1a1 1 0 0 1 2 0v1.4a1 1 0 0 1 2 0v3.6c0 2.8-1.6 4.8-4.2 4.8-2 0-3-1-4-2.8L3.2 9.6c-.5-1 .6-1.8 1.4-1.1Z" />
  ),
  merge: (
    <>
      <circle cx="4.4" cy="3.8" r="1.7" />
      <circle cx="4.4" cy="12.2" r="1.7" />
      <circle cx="11.6" cy="8.6" r="1.7" />
      <path d="M4.4 5.5v5M4.6 5.6c.6 2 2.4 3 5.2 3" />
    </>
  ),
  bubble: <path d="M2.6 3.4h10.8v7.2H7.6L4.8 13v-2.4H2.6Z" />,
};

const glyphOf: Record<Word, string> = {
  draft: 'ring',
  queued: 'ring',
  starting: 'ring_quarter',
  working: 'ring_half',
  needs_you: 'diamond',
  paused: 'bars',
  stopping: 'square',
  stopped: 'square',
  proven: 'check',
  unproven: 'check_open',
  broken: 'cross',
  answered: 'bubble',
  handed_over: 'hand',
  merged: 'merge',
  closed: 'merge',
  lost: 'ring_dashed',
};

export const roleOf: Record<Word, Role> = {
  draft: 'idle',
  queued: 'idle',
  starting: 'run',
  working: 'run',
  needs_you: 'ask',
  paused: 'ask',
  stopping: 'idle',
  stopped: 'idle',
  proven: 'ok',
  unproven: 'unp',
  broken: 'bad',
  answered: 'idle',
  handed_over: 'ask',
  merged: 'idle',
  closed: 'idle',
  lost: 'bad',
};

/** The sign that the daemon names, else that of the word. */
export function Glyph({ word, name = '', size = 16 }: { word: Word; name?: string; size?: number }) {
  return (
    <svg
      viewBox="0 0 16 16"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {parts[name] ?? parts[glyphOf[word] ?? 'ring'] ?? parts.ring}
    </svg>
  );
}
