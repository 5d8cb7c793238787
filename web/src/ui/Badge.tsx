import type { ReactNode } from 'react';
import type { Role } from '../api/types';
import s from './Badge.module.css';
import { cx } from './cx';

/** A short word in a frame, or a number beside a heading. */
export const Badge = ({ tone = 'idle', children }: { tone?: Role; children: ReactNode }) => (
  <span className={cx(s.badge, s[tone])}>{children}</span>
);
