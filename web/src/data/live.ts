import { call, part } from '../api/client';
import { setConnection } from '../app/connection';
import { signedOut } from '../app/signin';
import { Desk } from './desk';
import { Drafts } from './drafts';
import { Frame } from './frame';
import { Hub, type HubOptions } from './hub';
import { Outbox } from './outbox';
import { Shelf } from './shelf';
import { daemon } from './source';
import { fields, str } from './wire';

// The one hub, desk, outbox and shelf of this tab, made when a page first asks.

export interface Live {
  hub: Hub;
  desk: Desk;
  outbox: Outbox;
  drafts: Drafts;
  shelf: Shelf;
}

let made: Live | undefined;

export function live(): Live {
  made ??= make();
  return made;
}

/** Requests of the stream and of sessions see a sign-in that ended as all others do. */
const get: typeof fetch = async (...args) => {
  const answer = await fetch(...args);
  if (answer.status === 401) signedOut();
  return answer;
};

function make(): Live {
  const shelf = new Shelf(storage());
  const options: HubOptions = { fetch: get, visible: () => !document.hidden };
  if ('locks' in navigator && 'BroadcastChannel' in window) {
    options.locks = navigator.locks;
    options.channel = new BroadcastChannel('drydock');
  }
  const hub = new Hub(options);
  const desk = new Desk(hub, daemon('/api/v1', get), new Frame());
  const outbox = new Outbox(async (session, text, client) => {
    const answer = await call(`/sessions/${part(session)}/prompts`, {
      method: 'POST',
      body: { text, client_id: client },
    });
    return str(fields(answer), 'id');
  }, shelf);
  watch(hub, outbox);
  return { hub, desk, outbox, drafts: new Drafts(shelf), shelf };
}

function storage(): Storage | undefined {
  try {
    return window.localStorage;
  } catch {
    return undefined;
  }
}

function watch(hub: Hub, outbox: Outbox): void {
  const show = () => {
    const { condition, since } = hub.status();
    if (condition === 'live') {
      setConnection({ state: 'live', since });
      outbox.resume();
    } else if (condition !== 'connecting') setConnection({ state: 'lost', since });
    if (condition === 'signed_out') signedOut();
  };
  hub.onStatus(show);
  let build = '';
  hub.listen((signals) => {
    for (const s of signals) {
      if (s.is !== 'hello' || !s.web) continue;
      // The page was built with what the daemon first said; another build means an update under an open page.
      if (build && build !== s.web) setConnection({ outdated: true });
      build ||= s.web;
    }
  });
  document.addEventListener('visibilitychange', () => hub.looked());
  window.addEventListener('online', () => hub.nudge());
  window.addEventListener('pagehide', () => hub.leave());
  window.addEventListener('pageshow', (e) => {
    if (e.persisted) hub.join();
  });
}
