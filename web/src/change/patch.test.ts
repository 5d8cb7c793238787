import { expect, test } from 'vitest';
import { rowsOf } from './patch';

const kinds = (patch: string) => rowsOf(patch).rows.map((r) => `${r.kind[0]}${r.old ?? ''}/${r.now ?? ''} ${r.text}`);

test('a removed SQL comment is a removed line', () => {
  expect(kinds('@@ -3,3 +3,2 @@ create\n a\n--- drop it\n b\n')).toEqual([
    'h/ @@ -3,3 +3,2 @@ create',
    's3/3 a',
    'r4/ -- drop it',
    's5/4 b',
  ]);
});

test('an added line that looks like the head of a hunk is one', () => {
  expect(kinds('@@ -1 +1,2 @@\n a\n+@@ -9 +9 @@\n@@ -7 +8 @@\n-x\n+y\n')).toEqual([
    'h/ @@ -1 +1,2 @@',
    's1/1 a',
    'a/2 @@ -9 +9 @@',
    'h/ @@ -7 +8 @@',
    'r7/ x',
    'a/8 y',
  ]);
});

test('the end of a file without a line feed and carriage returns stay', () => {
  expect(kinds('@@ -1 +1 @@\n-a\r\n\\ No newline at end of file\n+a\n\\ No newline at end of file\n')).toEqual([
    'h/ @@ -1 +1 @@',
    'r1/ a\r',
    'n/ No newline at end of file',
    'a/1 a',
    'n/ No newline at end of file',
  ]);
});

test('nothing is left out of what is not understood, and there is a bound', () => {
  expect(kinds('what is this\n')).toEqual(['n/ what is this']);
  expect(rowsOf('').rows).toEqual([]);
  const long = `@@ -1,9 +1,9 @@\n${' x\n'.repeat(9)}`;
  expect(rowsOf(long, 5)).toMatchObject({ cut: true, rows: { length: 5 } });
});
