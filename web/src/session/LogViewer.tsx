import { useVirtualizer } from '@tanstack/react-virtual';
import { useRef } from 'react';
import { BodyLine } from './Body';
import s from './Body.module.css';
import { w } from './words';

/** All lines of a body; only those in view are drawn. */
export function LogViewer({ lines, diff }: { lines: readonly string[]; diff: boolean }) {
  const ref = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => ref.current,
    estimateSize: () => 20,
    overscan: 20,
  });
  return (
    <>
      <p className={s.count}>{w.lineCount(lines.length)}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached with keys */}
      <div ref={ref} className={s.viewer} tabIndex={0} role="region" aria-label={w.output}>
        <div className={s.canvas} style={{ blockSize: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((v) => (
            <div key={v.key} className={s.at} style={{ transform: `translateY(${v.start}px)` }}>
              <span className={s.number} aria-hidden="true">
                {v.index + 1}
              </span>
              <BodyLine line={lines[v.index] ?? ''} diff={diff} />
            </div>
          ))}
        </div>
      </div>
    </>
  );
}
