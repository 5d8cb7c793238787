import type { ReactNode } from 'react';
import s from './State.module.css';

/** Nothing is here, why, and what one can do. */
export function EmptyState({
  title,
  text,
  heading = true,
  children,
}: {
  title: string;
  text?: ReactNode;
  heading?: boolean;
  children?: ReactNode;
}) {
  return (
    <div className={s.state}>
      {heading && <h2 className={s.title}>{title}</h2>}
      {text && <p className={s.text}>{text}</p>}
      {children}
    </div>
  );
}
