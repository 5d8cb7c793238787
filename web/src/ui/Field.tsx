import { CircleAlert } from 'lucide-react';
import { type ComponentProps, type ReactNode, useId } from 'react';
import { cx } from './cx';
import s from './Field.module.css';

interface Around {
  label: string;
  help?: ReactNode;
  error?: string | undefined;
  /** The label is for those who cannot see; the place says what it is. */
  hideLabel?: boolean;
}

function useIDs(help: unknown, error: unknown, given: string | undefined) {
  const id = useId();
  const by = [given, help && `${id}-help`, error && `${id}-error`].filter(Boolean).join(' ');
  return { id, by: by || undefined };
}

function Frame({ id, label, help, error, hideLabel, children }: Around & { id: string; children: ReactNode }) {
  return (
    <div className={s.field}>
      <label htmlFor={id} className={hideLabel ? 'sr-only' : s.label}>
        {label}
      </label>
      {children}
      {help && (
        <p id={`${id}-help`} className={s.help}>
          {help}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} className={s.error} role="alert">
          <CircleAlert size={14} aria-hidden="true" />
          {error}
        </p>
      )}
    </div>
  );
}

export function Input({ label, help, error, hideLabel, className, ...rest }: ComponentProps<'input'> & Around) {
  const { id, by } = useIDs(help, error, rest['aria-describedby']);
  return (
    <Frame {...{ id, label, help, error, hideLabel: hideLabel ?? false }}>
      <input
        {...rest}
        id={id}
        className={cx(s.input, className)}
        aria-invalid={error ? true : undefined}
        aria-describedby={by}
      />
    </Frame>
  );
}

export function TextArea({ label, help, error, hideLabel, className, ...rest }: ComponentProps<'textarea'> & Around) {
  const { id, by } = useIDs(help, error, rest['aria-describedby']);
  return (
    <Frame {...{ id, label, help, error, hideLabel: hideLabel ?? false }}>
      <textarea
        rows={3}
        {...rest}
        id={id}
        className={cx(s.input, s.area, className)}
        aria-invalid={error ? true : undefined}
        aria-describedby={by}
      />
    </Frame>
  );
}

/** The browser's own list: on a phone it is the phone's. */
export function Select({
  label,
  help,
  error,
  hideLabel,
  options,
  className,
  ...rest
}: ComponentProps<'select'> & Around & { options: { value: string; label: string }[] }) {
  const { id, by } = useIDs(help, error, rest['aria-describedby']);
  return (
    <Frame {...{ id, label, help, error, hideLabel: hideLabel ?? false }}>
      <select
        {...rest}
        id={id}
        className={cx(s.input, s.select, className)}
        aria-invalid={error ? true : undefined}
        aria-describedby={by}
      >
        {options.map((o) => (
          <option key={o.value} value={o.value}>
            {o.label}
          </option>
        ))}
      </select>
    </Frame>
  );
}
