// Hunks of one file, as the daemon sends them: no header, and lines counted by "@@ -a,b +c,d @@". The counts decide where a
// hunk ends, so a removed line that reads "-- x" is a line like any other.

export interface Row {
  kind: 'hunk' | 'same' | 'added' | 'removed' | 'note';
  old?: number;
  now?: number;
  text: string;
}

const head = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)$/;

/** What is not understood becomes a note: a line is never left out. At most `most` rows. */
export function rowsOf(patch: string, most = 50_000): { rows: Row[]; cut: boolean } {
  const rows: Row[] = [];
  let old = 0;
  let now = 0;
  let oldLeft = 0;
  let nowLeft = 0;
  const lines = patch.split('\n');
  if (lines.at(-1) === '') lines.pop();
  for (const line of lines) {
    if (rows.length >= most) return { rows, cut: true };
    if (oldLeft <= 0 && nowLeft <= 0 && !line.startsWith('\\')) {
      const m = head.exec(line);
      if (!m) {
        rows.push({ kind: 'note', text: line });
        continue;
      }
      old = Number(m[1]);
      oldLeft = Number(m[2] ?? 1);
      now = Number(m[3]);
      nowLeft = Number(m[4] ?? 1);
      rows.push({ kind: 'hunk', text: line });
      continue;
    }
    const text = line.slice(1);
    switch (line[0]) {
      case '+':
        rows.push({ kind: 'added', now: now++, text });
        nowLeft--;
        break;
      case '-':
        rows.push({ kind: 'removed', old: old++, text });
        oldLeft--;
        break;
      case '\\':
        rows.push({ kind: 'note', text: line.slice(1).trim() });
        break;
      default: // context; some tools send an empty line for an empty one
        rows.push({ kind: 'same', old: old++, now: now++, text });
        oldLeft--;
        nowLeft--;
    }
  }
  return { rows, cut: false };
}
