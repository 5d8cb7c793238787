import { Switch as BaseSwitch } from '@base-ui/react/switch';
import { type ComponentProps, type ReactNode, useId } from 'react';
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
