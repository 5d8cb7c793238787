'use strict';

// A small linter: syntax, strict mode, stray output, unused names, white space.
// With --fix it repairs what is only white space.

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const root = path.join(__dirname, '..');
const fix = process.argv.includes('--fix');

function files(dir) {
  return fs.readdirSync(dir, { withFileTypes: true }).flatMap((e) => {
    if (e.name === 'node_modules' || e.name.startsWith('.')) return [];
    const full = path.join(dir, e.name);
    return e.isDirectory() ? files(full) : full.endsWith('.js') ? [full] : [];
  });
}

function lint(file) {
  const found = [];
  let text = fs.readFileSync(file, 'utf8');
  const tidy = `${text.replace(/[ \t]+$/gm, '').replace(/\n+$/, '')}\n`;
  if (tidy !== text) {
    if (fix) fs.writeFileSync(file, text = tidy);
    else found.push([1, 'white space at the end of a line or of the file (--fix repairs it)']);
  }
  try {
    new vm.Script(text, { filename: file });
  } catch (err) {
    found.push([Number(/:(\d+)$/m.exec(err.stack)?.[1] ?? 1), err.message]);
  }
  if (!text.startsWith("'use strict';\n")) found.push([1, "a file starts with 'use strict'"]);
  text.split('\n').forEach((line, i) => {
    if (/\bconsole\.\w+\(/.test(line)) found.push([i + 1, 'no console output in the shop']);
    if (/\bvar\s/.test(line) && !line.includes("'")) found.push([i + 1, 'const or let instead of var']);
    const name = /^(?:const|let)\s+(\w+)\s*=/.exec(line)?.[1];
    if (name && text.match(new RegExp(`\\b${name}\\b`, 'g')).length === 1) found.push([i + 1, `${name} is never used`]);
  });
  return found.map(([line, what]) => `${path.relative(root, file)}:${line}: ${what}`);
}

const found = files(root).flatMap(lint);
process.stdout.write(found.map((f) => `${f}\n`).join(''));
process.exitCode = found.length > 0 ? 1 : 0;
