import { type KeyboardEvent, useId, useRef, useState } from 'react';
import { fits } from '../app/fits';
import { t } from '../app/strings';
import s from './Combobox.module.css';
import { cx } from './cx';
import field from './Field.module.css';

export interface Option {
  value: string;
  label: string;
  detail?: string;
}

const most = 100;

/** One of many, found by typing. What is not chosen from the list is not taken. */
export function Combobox(props: {
  label: string;
  options: Option[];
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  hideLabel?: boolean;
}) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const chosen = props.options.find((o) => o.value === props.value);
  // Undefined: nothing is being typed, and the field shows what is chosen.
  const [text, setText] = useState<string>();
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const list = props.options.filter((o) => text === undefined || fits(o.label, text)).slice(0, most);
  const now = Math.min(at, Math.max(0, list.length - 1));

  function show() {
    setOpen(true);
    setAt(
      text === undefined
        ? Math.max(
            0,
            list.findIndex((o) => o.value === props.value),
          )
        : 0,
    );
  }
  function close() {
    setOpen(false);
    setText(undefined);
  }
  function take(option: Option | undefined) {
    if (option) props.onChange(option.value);
    close();
  }
  function move(to: number) {
    setAt(to);
    requestAnimationFrame(() => document.getElementById(`${id}-${to}`)?.scrollIntoView({ block: 'nearest' }));
  }
  function onKeyDown(e: KeyboardEvent) {
    if (e.nativeEvent.isComposing) return;
    const n = list.length;
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      if (!open) show();
      else if (n > 0) move((now + (e.key === 'ArrowDown' ? 1 : n - 1)) % n);
    } else if (open && e.key === 'Enter') {
      e.preventDefault();
      take(list[now]);
    } else if (open && e.key === 'Escape') {
      e.preventDefault();
      e.stopPropagation();
      close();
    }
  }

  return (
    <div className={cx(field.field, s.box)}>
      <label htmlFor={id} className={props.hideLabel ? 'sr-only' : field.label}>
        {props.label}
      </label>
      <input
        ref={input}
        id={id}
        className={field.input}
        role="combobox"
        aria-expanded={open}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={open && list[now] ? `${id}-${now}` : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder={props.placeholder}
        value={text ?? chosen?.label ?? ''}
        onChange={(e) => {
          setText(e.target.value);
          setAt(0);
          setOpen(true);
        }}
        onClick={() => !open && show()}
        onBlur={close}
        onKeyDown={onKeyDown}
      />
      <div
        id={`${id}-list`}
        role="listbox"
        aria-label={props.label}
        className={s.list}
        hidden={!open}
        data-open={open || undefined}
      >
        {open &&
          list.map((o, i) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
            // biome-ignore lint/a11y/useFocusableInteractive: named by aria-activedescendant
            <div
              key={o.value}
              id={`${id}-${i}`}
              role="option"
              aria-selected={o.value === props.value}
              className={cx(s.option, i === now && s.now)}
              // The field keeps the focus, so that it does not close before the click.
              onPointerDown={(e) => e.preventDefault()}
              onClick={() => take(o)}
            >
              {o.label}
              {o.detail && <span className={s.detail}>{o.detail}</span>}
            </div>
          ))}
      </div>
      {open && list.length === 0 && (
        <p className={s.none} role="status">
          {t.noneFits}
        </p>
      )}
    </div>
  );
}
