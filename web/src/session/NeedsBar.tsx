import { str } from '../data/wire';
import { Approvals } from './Approvals';
import { useHere, useShown } from './hooks';
import s from './page.module.css';
import { plain } from './text';
import { w } from './words';

/** What waits for a person, where there is no room for the details beside: above the composer, on any screen. */
export function NeedsBar() {
  const { session } = useHere();
  const shown = useShown(session);
  const word = str(shown.view, 'word');
  if (word !== 'needs_you' && word !== 'paused') return null;
  return (
    <section className={s.needs} aria-label={w.needsYou} data-region="">
      <p>{plain(str(shown.view, 'reason'))}</p>
      {word === 'needs_you' && <Approvals seq={shown.seq} />}
    </section>
  );
}
