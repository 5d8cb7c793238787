import { useEffect, useRef } from 'react';
import { announce, announceError } from '../app/announcer';
import type { Shown } from '../data/session';
import { str } from '../data/wire';
import { plain } from './text';

/** One sentence for each outcome or question, and none for what leads there. */
const SPOKEN = new Set(['needs_you', 'paused', 'stopped', 'proven', 'unproven', 'answered', 'handed_over', 'merged']);

export function useOutcomeWords(shown: Shown, title: string): void {
  const word = str(shown.view, 'word');
  const reason = str(shown.view, 'reason');
  const before = useRef('');
  useEffect(() => {
    const old = before.current;
    before.current = word;
    // What a page is opened on is read, not announced.
    if (!old || old === word) return;
    const said = `${plain(title)}: ${word.replaceAll('_', ' ')}. ${plain(reason)}`;
    if (word === 'broken' || word === 'lost') announceError(said);
    else if (SPOKEN.has(word)) announce(said);
  }, [word, reason, title]);
}
