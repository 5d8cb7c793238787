// Makes src/api/schema.ts from docs/openapi.json; without --write it only says
// whether the file is what it should be.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const description = new URL('../../docs/openapi.json', import.meta.url);
const target = new URL('../src/api/schema.ts', import.meta.url);
const ast = await openapiTS(description, { alphabetize: true, exportType: true });
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
