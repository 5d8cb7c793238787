import type { ReactNode } from 'react';
import type { Role } from '../api/types';
import s from './Badge.module.css';
import { cx } from './cx';

/** A short word in a frame, or a number beside a heading. */
export const Badge = ({ role = 'idle', children }: { role?: Role; children: ReactNode }) => (
  <span className={cx(s.badge, s[role])}>{children}</span>
);
