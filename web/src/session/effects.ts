import { call, part } from '../api/client';
import { asProblem } from '../api/problem';
import { announce, announceError } from '../app/announcer';
import type { Session } from '../data/session';
import { fields, list } from '../data/wire';
import { w } from './words';

// What a person does to a session. Each is one request; what came of it is said by the stream.

const at = (session: Session) => `/sessions/${part(session.id)}`;

/** Answers "" when it was accepted, else the daemon's words. */
async function effect(what: () => Promise<unknown>, done = ''): Promise<string> {
  try {
    await what();
    if (done) announce(done);
    return '';
  } catch (e) {
    const { message, hint } = asProblem(e);
    const said = hint ? `${message} (${hint})` : message;
    announceError(said);
    return said;
  }
}

/** Reads the prompts with their whole texts. */
export const wholePrompts = (s: Session) =>
  effect(async () => {
    const body = fields(await call(`${at(s)}/prompts`, { query: { limit: 500 } }));
    for (const p of list(body, 'items')) s.prompts.put(p);
  });

export const stop = (s: Session) => effect(() => call(`${at(s)}/stop`, { method: 'POST', body: {} }), w.stopping);
export const goOn = (s: Session) => effect(() => call(`${at(s)}/continue`, { method: 'POST' }));

export const removePrompt = (s: Session, id: string) =>
  effect(() => call(`${at(s)}/prompts/${part(id)}`, { method: 'DELETE' }), w.removed);

export const editPrompt = (s: Session, id: string, text: string) =>
  effect(() => call(`${at(s)}/prompts/${part(id)}`, { method: 'PATCH', body: { text } }));

/** Position 0 is next. */
export const movePrompt = (s: Session, id: string, position: number) =>
  effect(
    async () => {
      await call(`${at(s)}/prompts/${part(id)}/move`, { method: 'POST', body: { position } });
      s.refresh();
    },
    w.moved(position + 1),
  );

export const nowPrompt = (s: Session, id: string) =>
  effect(() => call(`${at(s)}/prompts/${part(id)}/now`, { method: 'POST', body: {} }));

export const answerApproval = (s: Session, id: string, yes: boolean, note: string) =>
  effect(async () => {
    await call(`/approvals/${part(id)}/${yes ? 'approve' : 'deny'}`, { method: 'POST', body: { note } });
    s.refresh();
  });
