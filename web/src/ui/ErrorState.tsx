import { RotateCw, TriangleAlert } from 'lucide-react';
import type { Problem } from '../api/problem';
import { t } from '../app/strings';
import { Button } from './Button';
import { Copy } from './Copy';
import s from './State.module.css';

/** What failed, on which object, in the exact words, with a way to try again. The rest of the page works. */
export function ErrorState({ title, problem, retry }: { title: string; problem: Problem; retry?: () => void }) {
  const details = [title, problem.message, problem.hint, problem.code, problem.status || '', problem.id]
    .filter(Boolean)
    .join('\n');
  return (
    <div className={s.error} role="group" aria-label={title}>
      <TriangleAlert size={18} aria-hidden="true" className={s.sign} />
      <div className={s.body}>
        <p className={s.title}>{title}</p>
        <p className={s.text}>{problem.message}</p>
        {problem.hint && <p className={s.text}>{problem.hint}</p>}
        {problem.id && <p className={s.text}>{t.errors.fault(problem.id)}</p>}
        <div className={s.ways}>
          {retry && (
            <Button size="small" icon={RotateCw} onClick={retry}>
              {t.retry}
            </Button>
          )}
          <Copy text={details} label={t.copyDetails} />
        </div>
      </div>
    </div>
  );
}
