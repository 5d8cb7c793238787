import { clientID } from '../api/client';
import type { CreateSession } from '../api/types';

/** A task that is being written. It outlives reload, crash and sign-out. */
export interface Task {
  text: string;
  environment: string;
  blueprint: string;
  model: string;
  base: string;
  /** In US dollars, as it was typed. */
  budget: string;
}

export const emptyTask: Task = { text: '', environment: '', blueprint: '', model: '', base: '', budget: '' };

interface Kept {
  task: Task;
  /** The id under which it was tried to be sent; it holds for exactly this task. */
  sending?: { id: string; of: string };
}

const key = 'drydock.v1.task';
const most = 100_000;

export function readKept(text: string | null): Kept {
  try {
    const value = JSON.parse(text ?? '{}') as Record<string, unknown>;
    const task = { ...emptyTask };
    const said = (value.task ?? {}) as Record<string, unknown>;
    for (const name of Object.keys(task) as (keyof Task)[]) {
      const v = said[name];
      if (typeof v === 'string') task[name] = v.slice(0, most);
    }
    const sending = value.sending as Record<string, unknown> | undefined;
    if (sending && typeof sending.id === 'string' && typeof sending.of === 'string') {
      return { task, sending: { id: sending.id, of: sending.of } };
    }
    return { task };
  } catch {
    return { task: { ...emptyTask } };
  }
}

export function loadTask(): Kept {
  try {
    return readKept(localStorage.getItem(key));
  } catch {
    return { task: { ...emptyTask } };
  }
}

export function keepTask(kept: Kept) {
  try {
    const t = kept.task;
    if (t.text === '' && !kept.sending) localStorage.setItem(key, JSON.stringify({ task: { ...t, text: '' } }));
    else localStorage.setItem(key, JSON.stringify(kept));
  } catch {
    // A full or forbidden storage: the text stays in the field.
  }
}

const print = (task: Task): string => JSON.stringify(task);

/** The id of this very task: the same for every try, another as soon as a word of it differs. */
export function sendingID(kept: Kept): { id: string; of: string } {
  const of = print(kept.task);
  return kept.sending?.of === of ? kept.sending : { id: clientID(), of };
}

/** `5`, `0.50`, `2,5`; nothing is no bound of its own, undefined is no sum. */
export function readBudget(text: string): number | '' | undefined {
  const trimmed = text.trim().replace(',', '.');
  if (trimmed === '') return '';
  if (!/^\d{1,6}(\.\d{1,6})?$/.test(trimmed)) return undefined;
  const microusd = Math.round(Number(trimmed) * 1e6);
  return microusd > 0 ? microusd : undefined;
}

export function request(task: Task, id: string, draft: string | undefined): CreateSession {
  const body: CreateSession = { environment: task.environment, prompt: task.text.trim(), client_id: id };
  if (draft) body.draft = draft;
  if (task.blueprint.trim()) body.blueprint = task.blueprint.trim();
  if (task.model.trim()) body.model = task.model.trim();
  if (task.base.trim()) body.base = task.base.trim();
  const budget = readBudget(task.budget);
  if (typeof budget === 'number') body.budget = { microusd: budget };
  return body;
}
