import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import { call } from '../api/client';
import { asProblem } from '../api/problem';
import type { Who } from '../api/types';
import { live } from '../data/live';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { Input } from '../ui/Field';
import { Mark } from '../ui/Mark';
import { whoQuery } from './identity';
import s from './Login.module.css';
import { signedIn } from './signin';
import { t } from './strings';

function Form({ again }: { again: boolean }) {
  const client = useQueryClient();
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const help = useId();
  async function submit(e: FormEvent<HTMLFormElement>) {
    e.preventDefault();
    const field = e.currentTarget.elements.namedItem('secret');
    const secret = field instanceof HTMLInputElement ? field.value.trim() : '';
    if (secret === '') {
      setError(t.login.empty);
      return;
    }
    setBusy(true);
    setError('');
    try {
      const who = await call<Who>('/login', { method: 'POST', body: { secret } });
      client.setQueryData(whoQuery.queryKey, who);
      signedIn();
      live().hub.nudge();
      await client.invalidateQueries();
    } catch (err) {
      const problem = asProblem(err);
      setError(
        problem.code === 'unauthorized' ? t.login.wrong : [problem.message, problem.hint].filter(Boolean).join(' '),
      );
    } finally {
      setBusy(false);
    }
  }
  return (
    <form className={s.form} onSubmit={(e) => void submit(e)} noValidate>
      <p className={s.text} id={help}>
        {again ? t.login.again : t.login.help}
      </p>
      <Input
        label={t.login.secret}
        name="secret"
        type="password"
        autoComplete="current-password"
        autoFocus
        spellCheck={false}
        autoCapitalize="none"
        error={error}
        aria-describedby={help}
      />
      <Button type="submit" kind="primary" busy={busy}>
        {t.login.submit}
      </Button>
    </form>
  );
}

/** The whole page for who is new, a dialog over the page for whom the sign-in ended meanwhile. */
export function Login({ again = false }: { again?: boolean }) {
  if (again) {
    return (
      <Dialog open firm onClose={() => {}} title={t.login.title}>
        <Form again />
      </Dialog>
    );
  }
  return (
    <main className={s.page}>
      <title>{t.login.title}</title>
      <div className={s.card}>
        <Mark size={40} />
        <h1 className={s.title}>{t.login.title}</h1>
        <Form again={false} />
      </div>
    </main>
  );
}
