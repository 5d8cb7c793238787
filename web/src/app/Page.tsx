import { type ReactNode, useEffect, useRef } from 'react';
import s from './Page.module.css';
import { OpenNavigation } from './Rail';
import { t } from './strings';

/**
 * One page in the frame: a header with the page's one h1, and a region that scrolls. `quiet` keeps the title of the
 * document as it was, for a moment of loading.
 */
export function Page(props: {
  title: string;
  /** What the browser's tab says, if it is not the title. */
  documentTitle?: string;
  /** In place of the title as words, what stands in the header. */
  header?: ReactNode;
  actions?: ReactNode;
  quiet?: boolean;
  /** The page brings its own scrollers. */
  bare?: boolean;
  children: ReactNode;
}) {
  const main = useRef<HTMLElement>(null);
  const { quiet } = props;
  const title = props.documentTitle ?? props.title;
  useEffect(() => {
    if (!quiet) document.title = title === t.product ? title : `${title} · ${t.product}`;
  }, [title, quiet]);
  return (
    <div className={s.page}>
      <header className={s.header} data-region>
        <OpenNavigation />
        {props.header ?? <h1 className={s.title}>{props.title}</h1>}
        {props.actions && <div className={s.actions}>{props.actions}</div>}
      </header>
      <main id="content" ref={main} tabIndex={-1} className={props.bare ? s.bare : s.main} data-region>
        {props.children}
      </main>
    </div>
  );
}
