import { t } from '../app/strings';
import s from './Skeleton.module.css';

/** Lines of the final height, still: nothing shimmers. */
export function Skeleton({ lines = 3, rows = false }: { lines?: number; rows?: boolean }) {
  return (
    <div role="status" aria-label={t.loading} className={s.skeleton}>
      {Array.from({ length: lines }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity
        <div key={i} className={rows ? s.row : s.line} />
      ))}
    </div>
  );
}
