import { memo, useMemo, useState } from 'react';
import { Button } from '../ui/Button';
import { Copy } from '../ui/Copy';
import { cx } from '../ui/cx';
import { Sheet } from '../ui/Dialog';
import s from './Body.module.css';
import type { Part } from './body';
import { LogViewer } from './LogViewer';
import { linesOf, spans } from './text';
import { w } from './words';

/** A body stands in the activity with so many lines; the rest is beside it. */
const MAX_LINES = 24;

export const Body = memo(function Body({ part, title }: { part: Part; title: string }) {
  const [whole, setWhole] = useState(false);
  const lines = useMemo(() => linesOf(part.text), [part.text]);
  const shown = lines.length > MAX_LINES ? lines.slice(0, MAX_LINES) : lines;
  return (
    <div className={s.body}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls sideways has to be reached with keys */}
      <pre className={s.pre} tabIndex={0} role="region" aria-label={part.title === 'input' ? w.input : w.output}>
        {shown.map((line, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity but their place
          <BodyLine key={i} line={line} diff={part.diff} />
        ))}
      </pre>
      <div className={s.foot}>
        {lines.length > MAX_LINES && (
          <Button size="small" kind="quiet" onClick={() => setWhole(true)}>
            {w.allLines(lines.length)}
          </Button>
        )}
        <Copy text={part.text} label="Copy" />
      </div>
      {whole && (
        <Sheet open onClose={() => setWhole(false)} title={w.logOf(title)}>
          <LogViewer lines={lines} diff={part.diff} />
        </Sheet>
      )}
    </div>
  );
});

export function BodyLine({ line, diff }: { line: string; diff: boolean }) {
  const sign = diff ? (line.startsWith('+') ? s.add : line.startsWith('-') ? s.del : undefined) : undefined;
  return (
    <span className={cx(s.line, sign)}>
      {spans(line).map((p, i) =>
        p.look ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: spans have no identity but their place
          <span key={i} className={s[p.look]}>
            {p.text}
          </span>
        ) : (
          p.text
        ),
      )}
      {'\n'}
    </span>
  );
}
