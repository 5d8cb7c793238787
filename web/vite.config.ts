import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

// A saved theme has to be known before the first paint, and a page without
// inline scripts can only learn it from a file that blocks: 300 bytes.
function early(file: string): Plugin {
  const source = readFileSync(new URL(file, import.meta.url), 'utf8');
  const name = `assets/early-${createHash('sha256').update(source).digest('hex').slice(0, 8)}.js`;
  return {
    name: 'early',
    apply: 'build',
    buildStart() {
      this.emitFile({ type: 'asset', fileName: name, source });
    },
    transformIndexHtml: {
      order: 'post',
      handler(_, { bundle }) {
        // The letters are asked for with the page: an optional face that comes late is not used.
        const font = Object.keys(bundle ?? {}).find((file) => /inter-latin.*woff2$/.test(file));
        return [
          { tag: 'script', attrs: { src: `/${name}` }, injectTo: 'head-prepend' as const },
          ...(font
            ? [
                {
                  tag: 'link',
                  attrs: { rel: 'preload', as: 'font', type: 'font/woff2', href: `/${font}`, crossorigin: true },
                  injectTo: 'head' as const,
                },
              ]
            : []),
        ];
      },
    },
  };
}

const apart =
  /src\/(app\/(Palette|Shortcuts|SettingsPage)|ui\/(Toggle|Overlay|Combobox|Tabs|Splitter|Disclosure|Table))\b/;
const shell = (id: string) =>
  !apart.test(id) &&
  (/\/src\/(app|api|ui|styles|data\/live|inbox\/(live|model|words))\b/.test(id) ||
    /node_modules\/lucide-react\//.test(id));

export default defineConfig({
  plugins: [react(), early('./src/app/early.js')],
  // The directory of packages is shared between checkouts, so nothing is written there.
  cacheDir: '.vite',
  build: {
    outDir: '../internal/surface/web/dist',
    emptyOutDir: true,
    target: 'es2023',
    // light-dark(), layers and field-sizing are understood as they stand.
    cssTarget: ['chrome123', 'firefox121', 'safari17.5'],
    manifest: 'manifest.json',
    // Nothing may come from a data: address, so nothing is inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // What every page needs comes in two files instead of twenty; what only some need stays apart.
        codeSplitting: {
          groups: [
            { name: 'react', test: /node_modules\/(react|react-dom|scheduler|@tanstack)\//, priority: 2 },
            { name: 'shell', test: shell, priority: 1 },
            { name: 'inbox', test: /\/src\/inbox\// },
          ],
        },
      },
    },
  },
  // The daemon puts the nonce of each answer in its place, for parts that bring styles of their own.
  html: { cspNonce: '__CSP_NONCE__' },
  css: { modules: { generateScopedName: '[name]_[local]_[hash:base64:4]' } },
  test: {
    environment: 'node',
    include: ['src/**/*.test.ts', 'src/**/*.test.tsx'],
    passWithNoTests: true,
  },
});
