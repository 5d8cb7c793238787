import { afterAll, describe, test } from 'vitest';
import { Script } from '../src/data/testing/synthetic';
import { accessible, keepsItsFrame, open, type SizeName, shot, sizes, startBrowser } from './browser';
import { ID, SessionDaemon } from './session';

startBrowser();

// The session page in its states, in both themes and at three widths.

/** One of everything that a session can show, some of it hostile. */
function rich(): Script {
  const s = new Script(ID);
  s.add('session.created', { to: 'queued', reason: '' });
  const first = s.begin(1, 'The total of a cart with a discount is too high.\nPlease find out why and repair it.');
  s.tool(0);
  s.say(1);
  s.end(1, first);
  s.begin(2, 'Also show the discount on the page, with a picture.');
  s.add('agent.thought', { text: 'The discount is stored on the cart. Let me see where the total is made.' });
  for (let i = 0; i < 5; i++) s.tool(i);
  s.add('agent.text', {
    text: '## What I found\n\nThe total is made in `cart/total.go`:\n\n```go\nfunc Total(c Cart) int { return sum }\n```\n\n| file | lines |\n|---|---|\n| cart/total.go | 1 |\n\nSee [the docs](https://docs.example.com/x) and ![a chart](https://evil.example.com/p.png) <img src=x onerror=alert(1)> [run](javascript:alert(1)).',
  });
  const call = { call: 'e1', tool: 'edit', title: 'edit cart/total.go' };
  s.add('tool.started', {
    ...call,
    input: { path: 'cart/total.go', old: '\treturn sum\n', new: '\treturn sum - c.Discount\n' },
  });
  s.add('tool.finished', { ...call, output: '-1 +1 lines', duration_ns: 3_000_000 });
  s.tool(5);
  s.add('network.denied', {
    host: 'telemetry.example.com',
    port: 443,
    via: 'dns',
    reason: 'not in the allow-list',
    hint: 'add it under network.allow in drydock.yaml',
    count: 3,
  });
  s.add('picture', {
    name: 'cart',
    url: 'http://127.0.0.1:3000/',
    digest: `sha256:${'a'.repeat(64)}`,
    width: 320,
    height: 200,
  });
  s.add('check', { check: 'test', result: 'green', passed: 12, failed: 0, skipped: 1, duration_ns: 2e9 });
  s.add('commit', {
    commit: '3f2a91c0de',
    branch: 'drydock/x',
    subject: 'Show the discount',
    files: 2,
    added: 12,
    removed: 3,
  });
  s.add('warning', { code: 'run_resumed', message: 'The daemon was restarted; the run goes on.', hint: '' });
  s.add('quantum.leap', { anything: 1 });
  s.tool(6);
  s.add('tool.started', { call: 'open', tool: 'run', title: '$ go test ./...', input: { command: 'go test ./...' } });
  return s;
}

const change = {
  id: 'chg_1',
  number: 4,
  state: 'open',
  title: 'Take the discount off',
  verdict: 'proven',
  added: 12,
  removed: 3,
  files: 2,
};
const evidence = {
  id: 'evd_1',
  verdict: 'proven',
  reasons: ['2 tests that failed pass now'],
  not_shown: ['The page in Firefox'],
};

interface Look {
  name: string;
  make: (d: SessionDaemon) => void;
  ready: string;
}

const looks: Look[] = [
  {
    name: 'session-working',
    make: (d) => {
      d.put(rich(), { change, evidence });
      const world = d.worlds.get(ID);
      world?.prompts.push(
        ...['Then write it down in the README', 'And release it'].map((text, i) => ({
          id: `prm_q${i}`,
          author: { handle: 'ben', name: 'Ben' },
          text,
          source: 'web',
          state: 'queued',
          position: i + 1,
          created: '2026-11-29T12:00:00Z',
        })),
      );
    },
    ready: '[data-phase=following][data-settled=true]',
  },
  {
    name: 'session-proven',
    make: (d) => void d.play({ turns: 3 }, { change, evidence }),
    ready: '[data-settled=true]',
  },
  {
    name: 'session-asks',
    make: (d) => {
      const s = rich();
      s.add('approval', {
        id: 'apr_1',
        question: 'May the change touch .github/workflows?',
        state: 'pending',
        asked_by: 'ben',
      });
      d.put(s, {
        approvals: [
          {
            id: 'apr_1',
            session: ID,
            kind: 'scope',
            state: 'pending',
            question: 'May the change touch .github/workflows/test.yaml?',
            asked_by: 'ben',
            created: '2026-11-29T12:00:00Z',
            deadline: '2026-11-29T13:00:00Z',
            detail: { paths: ['.github/workflows/test.yaml'] },
          },
        ],
      });
      d.view({
        word: 'needs_you',
        role: 'ask',
        glyph: 'diamond',
        reason: 'A question waits: may the change touch .github?',
        action: 'approve or deny',
      });
    },
    ready: '[data-settled=true]',
  },
  { name: 'session-empty', make: (d) => void d.put(new Script(ID)), ready: 'text=Nothing has run yet' },
  { name: 'session-loading', make: (d) => hold(d), ready: '[aria-label=Loading]' },
  { name: 'session-gone', make: (d) => refuse(d, 410), ready: 'text=This is gone' },
  { name: 'session-forbidden', make: (d) => refuse(d, 403), ready: 'text=not open to you' },
  {
    name: 'session-huge',
    make: (d) => void d.play({ turns: 200, tools: 240 }),
    ready: '[data-virtual=true][data-settled=true]',
  },
];

function refuse(d: SessionDaemon, status: number) {
  d.play();
  d.refuse = (path) => (path === `GET /sessions/${ID}/page` ? status : 0);
}

function hold(d: SessionDaemon) {
  d.play();
  const real = d.handle.bind(d);
  d.handle = async (req, res) => {
    if (!req.url?.endsWith('/page')) await real(req, res);
  };
}

describe.each(looks)('$name', (look) => {
  const d = new SessionDaemon();
  look.make(d);
  const address = d.start();
  afterAll(() => d.close());

  test.each(Object.keys(sizes) as SizeName[])('%s', async (size) => {
    for (const scheme of ['light', 'dark'] as const) {
      const w = await open(`${await address}/s/${ID}`, { size, scheme });
      await w.page.waitForSelector(look.ready, { timeout: 20_000 });
      await w.page.waitForTimeout(150);
      await shot(w.page, `${look.name}-${size}-${scheme}`);
      await keepsItsFrame(w.page);
      await accessible(w.page);
      w.clean();
      await w.close();
    }
  });
});
