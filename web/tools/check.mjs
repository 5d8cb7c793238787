// Generated types, types, format and lint, side by side; every fault is shown.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

function run(name, file, ...args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [file, ...args]);
    let out = '';
    child.stdout.on('data', (d) => (out += d));
    child.stderr.on('data', (d) => (out += d));
    child.on('close', (code) => {
      if (code !== 0) console.log(`${name}:\n${out.trimEnd()}`);
      resolve(code === 0);
    });
  });
}

// Small files: what does not fit on a few screens is two things.
function long() {
  const bad = [];
  const walk = (dir) => {
    for (const entry of readdirSync(dir, { withFileTypes: true })) {
      const path = join(dir, entry.name);
      if (entry.isDirectory()) walk(path);
      else if (/\.(tsx?|css)$/.test(entry.name) && entry.name !== 'schema.ts') {
        const lines = readFileSync(path, 'utf8').split('\n').length;
        if (lines > 400) bad.push(`${path}: ${lines} lines, at most 400`);
      }
    }
  };
  for (const dir of ['src', 'e2e']) walk(dir);
  if (bad.length > 0) console.log(bad.join('\n'));
  return bad.length === 0;
}

const ok = await Promise.all([
  run('generated types', 'tools/types.mjs'),
  run('types', 'node_modules/typescript/bin/tsc'),
  run(
    'format and lint',
    'node_modules/@biomejs/biome/bin/biome',
    'check',
    '--no-errors-on-unmatched',
    '--max-diagnostics=40',
  ),
]);
process.exit(ok.every(Boolean) && long() ? 0 : 1);
