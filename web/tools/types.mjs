// Makes src/api/schema.ts from docs/openapi.json; without --write it only says
// whether the file is what it should be.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const description = new URL('../../docs/openapi.json', import.meta.url);
const target = new URL('../src/api/schema.ts', import.meta.url);
let ast;
try {
  // Read here: the reader's own error would print the whole file.
  ast = await openapiTS(JSON.parse(readFileSync(description, 'utf8')), { alphabetize: true, exportType: true });
} catch (error) {
  console.log(`docs/openapi.json cannot be read: ${String(error.message).slice(0, 300)}`);
  process.exit(1);
}
const text = `// Generated from docs/openapi.json by \`npm run types\`; do not edit.\n\n${astToString(ast)}`;
if (process.argv.includes('--write')) {
  writeFileSync(target, text);
} else {
  let have = '';
  try {
    have = readFileSync(target, 'utf8');
  } catch {}
  if (have !== text) {
    console.log('web/src/api/schema.ts does not fit docs/openapi.json; run: make generate');
    process.exit(1);
  }
}
