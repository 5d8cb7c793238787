import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// A real daemon with a state directory of its own, on a port of its own.
const root = new URL('../../', import.meta.url).pathname;
const program = join(root, 'bin', 'drydock');

/** Why there can be no daemon here; "" if there can. Where CI=true there has to be one. */
export function lacking(): string {
  const why = process.getuid?.() !== 0 ? 'needs root' : existsSync(program) ? '' : 'needs bin/drydock: make build';
  if (why && process.env.CI === 'true') throw new Error(why);
  return why;
}

export class Daemon {
  readonly state = mkdtempSync(join(tmpdir(), 'drydock-page-'));
  #child: ChildProcess | undefined;
  #said = '';

  async start(): Promise<string> {
    const child = spawn(program, ['serve', '--state', this.state, '--listen', '127.0.0.1:0'], {
      stdio: ['ignore', 'ignore', 'pipe'],
      // Nobody's configuration and nobody's keys.
      env: { PATH: process.env.PATH, HOME: this.state, DRYDOCK_CONFIG: '/dev/null' },
    });
    this.#child = child;
    child.stderr?.on('data', (d: Buffer) => {
      this.#said = (this.#said + d).slice(-8000);
    });
    const address = join(this.state, 'api.addr');
    for (let i = 0; i < 600; i++) {
      if (child.exitCode !== null) throw new Error(`the daemon ended: ${this.#said}`);
      if (existsSync(address)) {
        const said = readFileSync(address, 'utf8').trim();
        const url = said.startsWith('http') ? said : `http://${said}`;
        const answers = await fetch(`${url}/healthz`).then(
          (r) => r.ok,
          () => false,
        );
        if (answers) return url;
      }
      await new Promise((done) => setTimeout(done, 100));
    }
    throw new Error(`the daemon does not answer: ${this.#said}`);
  }

  get token(): string {
    return readFileSync(join(this.state, 'token'), 'utf8').trim();
  }

  /** The command line, as somebody on this machine uses it. */
  run(...args: string[]): string {
    return execFileSync(program, ['--state', this.state, ...args], { encoding: 'utf8', timeout: 120_000 });
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child && child.exitCode === null) {
      const ended = new Promise((done) => child.once('exit', done));
      child.kill('SIGTERM');
      await ended;
    }
    rmSync(this.state, { recursive: true, force: true });
  }
}
