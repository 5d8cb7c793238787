import type { Author } from '../api/types';
import s from './Avatar.module.css';
import { cx } from './cx';

type Person = Pick<Author, 'handle'> & { name?: string };
const called = (p: Person) => p.name || p.handle;

/** Two letters of a name on one of six grounds; nothing is fetched from anywhere. */
export function Avatar({ person, size = 'usual' }: { person: Person; size?: 'usual' | 'small' }) {
  const words = called(person)
    .split(/[\s._-]+/)
    .filter(Boolean);
  const first = [...(words[0] ?? '?')];
  const letters = words.length > 1 ? `${first[0] ?? ''}${[...(words[1] ?? '')][0] ?? ''}` : first.slice(0, 2).join('');
  let sum = 0;
  for (const c of person.handle) sum = (sum * 31 + (c.codePointAt(0) ?? 0)) % 6;
  return (
    <span className={cx(s.avatar, s[size], s[`c${sum}`])} role="img" aria-label={called(person)} title={called(person)}>
      <span aria-hidden="true">{letters.toUpperCase()}</span>
    </span>
  );
}

export function Avatars({ people, most = 4 }: { people: Person[]; most?: number }) {
  const shown = people.slice(0, most);
  const rest = people.slice(most);
  return (
    <span className={s.many}>
      {shown.map((p) => (
        <Avatar key={p.handle} person={p} />
      ))}
      {rest.length > 0 && (
        <span className={cx(s.avatar, s.usual, s.more)} title={rest.map(called).join(', ')}>
          +{rest.length}
        </span>
      )}
    </span>
  );
}
