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
    transformIndexHtml: () => [{ tag: 'script', attrs: { src: `/${name}` }, injectTo: 'head-prepend' }],
  };
}

export default defineConfig({
  plugins: [react(), early('./src/app/early.js')],
  // The directory of packages is shared between checkouts, so nothing is written there.
  cacheDir: '.vite',
  build: {
    outDir: '../internal/surface/web/dist',
    emptyOutDir: true,
    target: 'es2023',
    manifest: 'manifest.json',
    // Nothing may come from a data: address, so nothing is inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  css: { modules: { generateScopedName: '[name]_[local]_[hash:base64:4]' } },
  test: {
    environment: 'node',
    include: ['src/**/*.test.ts', 'src/**/*.test.tsx'],
    passWithNoTests: true,
  },
});
