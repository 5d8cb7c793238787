// Prints how many bytes the page costs and fails where a budget is exceeded.
// usage: node sizes.mjs DIST
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const dist = process.argv[2];
const manifest = JSON.parse(readFileSync(join(dist, 'manifest.json'), 'utf8'));
const bytes = (file) => gzipSync(readFileSync(join(dist, file)), { level: 9 }).length;
const kb = (n) => `${(n / 1024).toFixed(1)} KB`;

// What a route needs: itself and what it imports at once, not what it may import later.
function needed(key, seen = new Set()) {
  if (seen.has(key)) return seen;
  seen.add(key);
  for (const other of manifest[key].imports ?? []) needed(other, seen);
  return seen;
}
function cost(keys) {
  const js = new Set();
  const css = new Set();
  for (const key of keys) {
    js.add(manifest[key].file);
    for (const file of manifest[key].css ?? []) css.add(file);
  }
  const sum = (files) => [...files].reduce((n, file) => n + bytes(file), 0);
  return { js: sum(js), css: sum(css) };
}

const entry = Object.keys(manifest).find((key) => manifest[key].isEntry);
const shell = needed(entry);
const routes = { inbox: [180, 20], session: [230, 30], change: [250, 30] };
let over = false;
const base = cost(shell);
console.log(`page: shell ${kb(base.js)} of scripts, ${kb(base.css)} of styles (gzip)`);
for (const [route, [maxJS, maxCSS]] of Object.entries(routes)) {
  const key = Object.keys(manifest).find((k) =>
    new RegExp(`^(src/${route}/\\w+Page\\.tsx|_${route}-.*\\.js)$`).test(k),
  );
  if (!key) throw new Error(`no chunk of ${route}`);
  const { js, css } = cost(new Set([...shell, ...needed(key)]));
  const bad = js > maxJS * 1024 || css > maxCSS * 1024;
  over ||= bad;
  console.log(`page: ${route} ${kb(js)} of ${maxJS}, styles ${kb(css)} of ${maxCSS}${bad ? '  OVER BUDGET' : ''}`);
}
const fonts = Object.values(manifest).flatMap((chunk) => (chunk.file.endsWith('.woff2') ? [chunk.file] : []));
console.log(
  `page: fonts ${kb(fonts.reduce((n, file) => n + readFileSync(join(dist, file)).length, 0))} in ${fonts.length} files`,
);
// Its keys name directories of this machine, and nobody needs it any more.
rmSync(join(dist, 'manifest.json'));
process.exit(over ? 1 : 0);
