import type { LucideIcon } from 'lucide-react';
import type { ComponentProps } from 'react';
import s from './Button.module.css';
import { cx } from './cx';

type Kind = 'plain' | 'primary' | 'danger' | 'quiet';

interface Looks {
  kind?: Kind;
  size?: 'usual' | 'small';
  icon?: LucideIcon;
}

/**
 * `busy` and `blocked` leave the button where the focus is: it can still be reached and says why it does nothing.
 */
export function Button({
  kind = 'plain',
  size = 'usual',
  icon: Icon,
  busy,
  blocked,
  className,
  children,
  onClick,
  ...rest
}: ComponentProps<'button'> & Looks & { busy?: boolean; blocked?: string | false }) {
  const idle = busy || Boolean(blocked);
  return (
    <button
      type="button"
      {...rest}
      className={cx(s.button, s[kind], s[size], className)}
      aria-disabled={idle || undefined}
      aria-busy={busy || undefined}
      title={blocked || rest.title}
      onClick={(e) => {
        if (idle) e.preventDefault();
        else onClick?.(e);
      }}
    >
      {Icon && <Icon size={16} aria-hidden="true" />}
      <span className={s.label}>{children}</span>
    </button>
  );
}

/** A sign with a name: the name is its label and its title. */
export function IconButton({
  icon: Icon,
  label,
  className,
  pressed,
  kind = 'quiet',
  size = 18,
  ...rest
}: Omit<ComponentProps<'button'>, 'children'> & {
  icon: LucideIcon;
  label: string;
  pressed?: boolean;
  kind?: Kind;
  size?: number;
}) {
  return (
    <button
      type="button"
      title={label}
      {...rest}
      aria-label={label}
      aria-pressed={pressed}
      className={cx(s.button, s.icon, s[kind], className)}
    >
      <Icon size={size} aria-hidden="true" />
    </button>
  );
}
