import { Combobox as Base } from '@base-ui/react/combobox';
import { useId } from 'react';
import { t } from '../app/strings';
import { cx } from './cx';
import field from './Field.module.css';
import s from './Overlay.module.css';

export interface Option {
  value: string;
  label: string;
  detail?: string;
}

/** One of many, found by typing. */
export function Combobox(props: {
  label: string;
  options: Option[];
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  hideLabel?: boolean;
}) {
  const id = useId();
  const chosen = props.options.find((o) => o.value === props.value) ?? null;
  return (
    <div className={field.field}>
      <label htmlFor={id} className={props.hideLabel ? 'sr-only' : field.label}>
        {props.label}
      </label>
      <Base.Root
        items={props.options}
        value={chosen}
        onValueChange={(option: Option | null) => props.onChange(option?.value ?? '')}
        itemToStringLabel={(o: Option) => o.label}
        isItemEqualToValue={(a: Option, b: Option) => a.value === b.value}
      >
        <Base.Input id={id} className={field.input} placeholder={props.placeholder} />
        <Base.Portal>
          <Base.Positioner className={s.positioner} sideOffset={4}>
            <Base.Popup className={s.popup}>
              <Base.Empty className={s.none}>{t.noneFits}</Base.Empty>
              <Base.List className={s.list}>
                {(o: Option) => (
                  <Base.Item key={o.value} value={o} className={cx(s.item)}>
                    {o.label}
                    {o.detail && <span className={s.detail}>{o.detail}</span>}
                  </Base.Item>
                )}
              </Base.List>
            </Base.Popup>
          </Base.Positioner>
        </Base.Portal>
      </Base.Root>
    </div>
  );
}
