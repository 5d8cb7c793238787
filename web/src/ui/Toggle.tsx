import { Switch as BaseSwitch } from '@base-ui/react/switch';
import { type ComponentProps, type ReactNode, useId } from 'react';
import { cx } from './cx';
import s from './Toggle.module.css';

export function Checkbox({
  label,
  help,
  ...rest
}: Omit<ComponentProps<'input'>, 'type'> & { label: ReactNode; help?: ReactNode }) {
  const id = useId();
  return (
    <div className={s.choice}>
      <input {...rest} type="checkbox" id={id} className={s.box} aria-describedby={help ? `${id}-help` : undefined} />
      <label htmlFor={id} className={s.label}>
        {label}
        {help && (
          <span className={s.help} id={`${id}-help`}>
            {help}
          </span>
        )}
      </label>
    </div>
  );
}

export function Switch(props: {
  label: ReactNode;
  help?: ReactNode;
  checked: boolean;
  onChange: (checked: boolean) => void;
  disabled?: boolean;
}) {
  const id = useId();
  return (
    <div className={s.choice}>
      <BaseSwitch.Root
        className={s.switch}
        checked={props.checked}
        onCheckedChange={props.onChange}
        disabled={props.disabled ?? false}
        aria-labelledby={`${id}-label`}
        aria-describedby={props.help ? `${id}-help` : undefined}
      >
        <BaseSwitch.Thumb className={s.thumb} />
      </BaseSwitch.Root>
      <span className={s.label}>
        <span id={`${id}-label`}>{props.label}</span>
        {props.help && (
          <span className={s.help} id={`${id}-help`}>
            {props.help}
          </span>
        )}
      </span>
    </div>
  );
}

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
