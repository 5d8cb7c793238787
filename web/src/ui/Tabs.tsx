import { Tabs as Base } from '@base-ui/react/tabs';
import type { ReactNode } from 'react';
import s from './Tabs.module.css';

export function Tabs<T extends string>(props: {
  label: string;
  value: T;
  onChange: (value: T) => void;
  tabs: { value: T; label: ReactNode; content: ReactNode }[];
}) {
  return (
    <Base.Root value={props.value} onValueChange={(value: T) => props.onChange(value)}>
      <Base.List className={s.list} aria-label={props.label}>
        {props.tabs.map((tab) => (
          <Base.Tab key={tab.value} value={tab.value} className={s.tab}>
            {tab.label}
          </Base.Tab>
        ))}
      </Base.List>
      {props.tabs.map((tab) => (
        <Base.Panel key={tab.value} value={tab.value} className={s.panel}>
          {tab.content}
        </Base.Panel>
      ))}
    </Base.Root>
  );
}
