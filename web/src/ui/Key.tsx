import { t } from '../app/strings';
import { apple } from '../app/useKeys';
import s from './Key.module.css';

const signs: Record<string, string> = apple ? { Mod: '⌘', Shift: '⇧' } : { Mod: 'Ctrl' };

/** A key or a chord as it stands on the keyboard. */
export function Key({ keys }: { keys: string }) {
  const presses = keys.split(' ');
  return (
    <span className={s.keys}>
      {presses.map((press, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a fixed list
        <span key={i} className={s.press}>
          {i > 0 && <span className={s.then}>{t.keys.thenKey}</span>}
          {press.split(/\+(?=.)/).map((part) => (
            <kbd key={part} className={s.key}>
              {signs[part] ??
                (part.length === 1 && /[a-z]/.test(part) && press.includes('Mod') ? part.toUpperCase() : part)}
            </kbd>
          ))}
        </span>
      ))}
    </span>
  );
}
