import { Link } from '@tanstack/react-router';
import { type FormEvent, type RefObject, useState } from 'react';
import { insist } from '../api/client';
import { asProblem, type Problem } from '../api/problem';
import type { CreatedSession, Environment } from '../api/types';
import { announce, announceError } from '../app/announcer';
import { useLost } from '../app/ConnectionBar';
import { t } from '../app/strings';
import { Button } from '../ui/Button';
import { ErrorState } from '../ui/ErrorState';
import { Select } from '../ui/Field';
import { Key } from '../ui/Key';
import s from './Composer.module.css';
import { emptyTask, keepTask, readBudget, request, sendingID } from './draft';
import { Options } from './Options';
import { useClaim, type useTask } from './useTask';
import { w } from './words';

interface Props {
  environments: Environment[] | undefined;
  failed: Problem | undefined;
  retry: () => void;
  field: RefObject<HTMLTextAreaElement | null>;
  task: ReturnType<typeof useTask>;
  onStarted: (made: CreatedSession) => void;
}

/** Where a task is written and started. What was typed stays until the daemon has it. */
export function Composer({ environments, failed, retry, field, task: { kept, change, setKept }, onStarted }: Props) {
  const { task } = kept;
  const only = environments?.length === 1 ? environments[0] : undefined;
  const known = environments?.find((e) => e.id === task.environment);
  const environment = environments ? (known?.id ?? only?.id ?? '') : task.environment;
  const { claim, warm } = useClaim(environment);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<{ problem?: Problem; text?: string; environment?: string }>({});
  const [started, setStarted] = useState<CreatedSession>();
  const lost = useLost() !== undefined;
  const written = task.text.trim() !== '';
  const none = environments?.length === 0;
  const blocked = lost ? t.connection.waitEffects : none ? w.composer.noEnvironments : false;

  async function send(e?: FormEvent) {
    e?.preventDefault();
    if (busy || blocked) return;
    if (!written || environment === '' || readBudget(task.budget) === undefined) {
      const text = written ? '' : w.composer.needText;
      const where = environment === '' ? w.composer.needEnvironment : '';
      setFault({ text, environment: where });
      announceError(text || where || w.composer.budgetWrong);
      if (text) field.current?.focus();
      return;
    }
    const whole = { ...kept, task: { ...task, environment } };
    const sending = sendingID(whole);
    // Kept before it is sent: after a crash the same task is tried under the same id.
    setKept({ ...whole, sending });
    keepTask({ ...whole, sending });
    setBusy(true);
    setFault({});
    setStarted(undefined);
    try {
      const body = request(whole.task, sending.id, claim.id(environment));
      const made = await insist<CreatedSession>('/sessions', { method: 'POST', body });
      claim.used();
      const next = { task: { ...emptyTask, environment, blueprint: task.blueprint, model: task.model } };
      setKept(next);
      keepTask(next);
      setStarted(made);
      announce(w.composer.started(made.session.title || task.text));
      onStarted(made);
    } catch (error) {
      setFault({ problem: asProblem(error) });
    } finally {
      setBusy(false);
      // Unless somebody went elsewhere meanwhile.
      if (document.activeElement === document.body || field.current?.form?.contains(document.activeElement)) {
        field.current?.focus();
      }
    }
  }

  return (
    <form className={s.composer} aria-label={w.composer.title} onSubmit={(e) => void send(e)} noValidate>
      <textarea
        ref={field}
        className={s.text}
        aria-label={w.composer.label}
        placeholder={w.composer.placeholder}
        aria-invalid={fault.text ? true : undefined}
        aria-describedby={fault.text ? 'composer-fault' : undefined}
        rows={2}
        maxLength={100_000}
        value={task.text}
        onChange={(e) => {
          change({ text: e.target.value });
          if (fault.text) setFault({});
          if (e.target.value.trim() !== '') void claim.typing(environment);
        }}
        onKeyDown={(e) => {
          if (e.key === 'Escape') e.currentTarget.blur();
          if (e.key === 'Enter' && (e.ctrlKey || e.metaKey) && !e.nativeEvent.isComposing) void send(e);
        }}
      />
      {fault.text && (
        <p className={s.fault} id="composer-fault">
          {fault.text}
        </p>
      )}
      <div className={s.foot}>
        {environments && environments.length > 0 && (
          <div className={s.environment}>
            <Select
              label={w.composer.environment}
              hideLabel
              value={environment}
              error={fault.environment}
              options={[
                ...(environment === '' ? [{ value: '', label: w.composer.choose }] : []),
                ...environments.map((e) => ({ value: e.id, label: e.name })),
              ]}
              onChange={(e) => {
                change({ environment: e.target.value });
                setFault({});
                if (written) void claim.typing(e.target.value);
              }}
            />
          </div>
        )}
        <Options task={task} change={change} environment={known ?? only} />
        <div className={s.send}>
          {warm && written && <span className={s.warm}>{w.composer.warm}</span>}
          <span className={s.key} aria-hidden="true">
            <Key keys="Mod+Enter" />
          </span>
          <Button type="submit" kind="primary" busy={busy} blocked={blocked}>
            {w.composer.start}
          </Button>
        </div>
      </div>
      {blocked && written && <p className={s.note}>{blocked}</p>}
      {fault.problem && <ErrorState title={w.composer.failed} problem={fault.problem} retry={() => void send()} />}
      {failed && !environments && <ErrorState title={w.composer.environmentsFailed} problem={failed} retry={retry} />}
      {started && (
        <p className={s.note}>
          {w.composer.started(started.session.title)}{' '}
          <Link to="/s/$id" params={{ id: started.session.id }}>
            {w.composer.open}
          </Link>
        </p>
      )}
    </form>
  );
}
