import type { ReactNode } from 'react';
import s from './Gallery.module.css';

export const Part = ({ name, children }: { name: string; children: ReactNode }) => (
  <section className={s.part} aria-label={name}>
    <h2 className={s.name}>{name}</h2>
    <div className={s.states}>{children}</div>
  </section>
);
