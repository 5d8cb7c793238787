import { useQuery } from '@tanstack/react-query';
import { SlidersHorizontal } from 'lucide-react';
import { useId, useState } from 'react';
import { call } from '../api/client';
import type { Environment } from '../api/types';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { Input } from '../ui/Field';
import { readBudget, type Task } from './draft';
import s from './Options.module.css';
import { w } from './words';

interface Named {
  name: string;
}

/** Names that the daemon offers; where it does not say, the fields are plain. */
function useNames(path: string, wanted: boolean): string[] {
  const query = useQuery({
    queryKey: ['names', path],
    queryFn: ({ signal }) => call<{ items: Named[] }>(path, { signal }),
    enabled: wanted,
    staleTime: 60_000,
    retry: false,
  });
  return query.data?.items.map((i) => i.name).filter((n) => typeof n === 'string') ?? [];
}

export function Options(props: {
  task: Task;
  change: (part: Partial<Task>) => void;
  environment: Environment | undefined;
}) {
  const { task, change, environment } = props;
  const [open, setOpen] = useState(false);
  const id = useId();
  const models = useNames('/models', open);
  const blueprints = useNames('/blueprints', open);
  const wrong = readBudget(task.budget) === undefined;
  // What differs from the usual stands on the button, so that nothing is set unseen.
  const set = [task.blueprint, task.model, task.base, task.budget && w.composer.budgetOf(task.budget)].filter(Boolean);
  const field = (name: keyof Task) => ({
    value: task[name],
    onChange: (e: { target: { value: string } }) => change({ [name]: e.target.value }),
    spellCheck: false,
    autoComplete: 'off',
    autoCapitalize: 'none',
    maxLength: 200,
  });
  return (
    <>
      <Button
        kind={wrong ? 'danger' : 'quiet'}
        icon={SlidersHorizontal}
        className={s.button}
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
      >
        {set.length > 0 ? set.join(' · ') : w.composer.options}
      </Button>
      <Dialog
        open={open}
        onClose={() => setOpen(false)}
        title={w.composer.options}
        foot={<Button onClick={() => setOpen(false)}>{w.composer.done}</Button>}
      >
        <div className={s.fields}>
          <Input label={w.composer.model} help={w.composer.modelHelp} list={`${id}-models`} {...field('model')} />
          <Input
            label={w.composer.base}
            help={w.composer.baseHelp(environment?.default_branch || w.composer.defaultBranch)}
            {...field('base')}
          />
          <Input
            label={w.composer.budget}
            help={w.composer.budgetHelp}
            inputMode="decimal"
            error={wrong ? w.composer.budgetWrong : ''}
            {...field('budget')}
          />
          <Input
            label={w.composer.blueprint}
            help={w.composer.blueprintHelp}
            list={`${id}-blueprints`}
            {...field('blueprint')}
          />
          <datalist id={`${id}-models`}>
            {models.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <datalist id={`${id}-blueprints`}>
            {blueprints.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </div>
      </Dialog>
    </>
  );
}
