import { type ReactNode, useRef, useState } from 'react';
import { t } from '../app/strings';
import s from './Splitter.module.css';

/** Two panes with a handle: dragged, moved by arrow keys, and set by Home and End. */
export function Splitter(props: { label: string; start: ReactNode; end: ReactNode; least?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [share, setShare] = useState(50);
  const least = props.least ?? 20;
  const put = (value: number) => {
    const now = Math.min(100 - least, Math.max(least, value));
    setShare(now);
    // Through the object model: the page's policy allows no style attributes in markup.
    box.current?.style.setProperty('--share', `${now}%`);
  };
  const moves: Record<string, number> = { ArrowLeft: share - 5, ArrowRight: share + 5, Home: least, End: 100 - least };
  return (
    <div ref={box} className={s.box}>
      <div className={s.pane}>{props.start}</div>
      <div
        role="separator"
        tabIndex={0}
        aria-label={props.label}
        aria-orientation="vertical"
        aria-valuenow={Math.round(share)}
        aria-valuemin={least}
        aria-valuemax={100 - least}
        title={t.splitter}
        className={s.handle}
        onKeyDown={(e) => {
          const to = moves[e.key];
          if (to === undefined) return;
          e.preventDefault();
          put(to);
        }}
        onPointerDown={(e) => e.currentTarget.setPointerCapture(e.pointerId)}
        onPointerMove={(e) => {
          const r = box.current?.getBoundingClientRect();
          if (r && e.currentTarget.hasPointerCapture(e.pointerId)) put(((e.clientX - r.left) / r.width) * 100);
        }}
      />
      <div className={s.pane}>{props.end}</div>
    </div>
  );
}
