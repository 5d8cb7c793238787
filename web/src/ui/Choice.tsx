import { useId } from 'react';
import s from './Choice.module.css';
import { cx } from './cx';

/** One of a few, side by side. */
export function Choice<T extends string>(props: {
  label: string;
  hideLabel?: boolean;
  value: T;
  options: { value: T; label: string }[];
  onChange: (value: T) => void;
}) {
  const id = useId();
  return (
    <fieldset className={s.set}>
      <legend className={props.hideLabel ? 'sr-only' : s.legend}>{props.label}</legend>
      <div className={s.row}>
        {props.options.map((o) => (
          <label key={o.value} className={cx(s.option, props.value === o.value && s.chosen)}>
            <input
              type="radio"
              className="sr-only"
              name={id}
              checked={props.value === o.value}
              onChange={() => props.onChange(o.value)}
            />
            {o.label}
          </label>
        ))}
      </div>
    </fieldset>
  );
}
