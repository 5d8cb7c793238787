import type { View } from '../api/types';
import { t } from '../app/strings';
import { cx } from './cx';
import { Glyph, roleOf } from './glyphs';
import s from './StateWord.module.css';

/** The one word for what a session does, with its sign. The same everywhere that a session is shown. */
export function StateWord({
  view,
  tint = false,
}: {
  view: Pick<View, 'word' | 'role' | 'position'> & { glyph?: string };
  tint?: boolean;
}) {
  const role = view.role in t.roles ? view.role : (roleOf[view.word] ?? 'idle');
  return (
    <span className={cx(s.state, s[role], tint && s.tint)}>
      <Glyph word={view.word} name={view.glyph ?? ''} />
      {t.stateWord(view.word, view.position)}
    </span>
  );
}
