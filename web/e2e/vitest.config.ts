import { defineConfig } from 'vitest/config';

export default defineConfig({
  cacheDir: '../.vite',
  test: {
    root: new URL('.', import.meta.url).pathname,
    include: ['*.e2e.ts'],
    passWithNoTests: true,
    // One browser and one daemon: files come one after another.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
