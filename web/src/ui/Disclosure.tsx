import { ChevronRight } from 'lucide-react';
import type { ReactNode } from 'react';
import s from './Disclosure.module.css';

export function Disclosure(props: {
  summary: ReactNode;
  open?: boolean;
  onToggle?: (open: boolean) => void;
  children: ReactNode;
}) {
  return (
    <details className={s.details} open={props.open} onToggle={(e) => props.onToggle?.(e.currentTarget.open)}>
      <summary className={s.summary}>
        <ChevronRight size={16} aria-hidden="true" className={s.sign} />
        {props.summary}
      </summary>
      <div className={s.body}>{props.children}</div>
    </details>
  );
}
