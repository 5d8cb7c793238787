import { lexer, type Token, type Tokens } from 'marked';
import { Fragment, memo, type ReactNode, useRef } from 'react';
import s from './Markdown.module.css';
import { visible } from './text';
import { w } from './words';

// Markdown of a model or a person: tokens of the lexer become nodes of our own, from this list and no other. HTML is
// text, pictures of elsewhere are words, links say where they lead.

/** Longer text is shown as it is: nobody reads it formatted, and a hostile one must not hold the page. */
const MAX_TEXT = 48 << 10;
const MAX_DEPTH = 12;

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const blocks = useBlocks(text);
  if (!blocks) return <p className={s.plain}>{visible(text)}</p>;
  return (
    <div className={s.prose}>
      {blocks.map((b, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks are only ever added at the end
        <Block key={i} raw={b.raw} token={b} />
      ))}
    </div>
  );
});

/** The blocks of a text. While it grows at its end, what is finished keeps its tokens and only the rest is read. */
function useBlocks(text: string): Token[] | undefined {
  const last = useRef<{ text: string; blocks: Token[] }>({ text: '', blocks: [] });
  if (text.length > MAX_TEXT) return undefined;
  const before = last.current;
  if (before.text === text) return before.blocks;
  const keep = text.startsWith(before.text) ? before.blocks.slice(0, -2) : [];
  const done = keep.reduce((n, b) => n + b.raw.length, 0);
  const same = keep.map((b) => b.raw).join('') === text.slice(0, done);
  const blocks = same ? [...keep, ...lex(text.slice(done))] : lex(text);
  last.current = { text, blocks };
  return blocks;
}

function lex(text: string): Token[] {
  try {
    return lexer(text, { gfm: true });
  } catch {
    return [{ type: 'text', raw: text, text }];
  }
}

/** Drawn once: a block with the same source has the same nodes. */
const Block = memo(
  function Block({ token }: { raw: string; token: Token }) {
    return <>{block(token, 0)}</>;
  },
  (a, b) => a.raw === b.raw,
);

function block(token: Token, depth: number): ReactNode {
  if (depth > MAX_DEPTH) return <p>{visible(token.raw)}</p>;
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading':
      // Below the page's own title; what levels a text of a model has is not an outline of the page.
      return <h2 className={s.heading}>{inline(token.tokens, depth)}</h2>;
    case 'paragraph':
      return <p>{inline(token.tokens, depth)}</p>;
    case 'code':
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls sideways has to be reached with keys
        <pre className={s.code} tabIndex={0}>
          <code>{visible((token as Tokens.Code).text)}</code>
        </pre>
      );
    case 'blockquote':
      return <blockquote>{blocks(token.tokens, depth)}</blockquote>;
    case 'list':
      return list(token as Tokens.List, depth);
    case 'hr':
      return <hr />;
    case 'table':
      return table(token as Tokens.Table, depth);
    case 'text':
      return token.tokens ? <p>{inline(token.tokens, depth)}</p> : <p>{visible(plainOf(token))}</p>;
    default:
      return <p className={s.plain}>{visible(token.raw)}</p>;
  }
}

function blocks(tokens: Token[] | undefined, depth: number): ReactNode {
  return keyed(tokens, (t) => block(t, depth + 1));
}

function list(token: Tokens.List, depth: number): ReactNode {
  const items = token.items.map((item, i) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: the list is read whole
    <li key={i}>
      {item.task && <span aria-hidden="true">{item.checked ? '☑ ' : '☐ '}</span>}
      {keyed(item.tokens, (t) =>
        t.type === 'text'
          ? t.tokens
            ? inline(t.tokens, depth)
            : visible(plainOf(t))
          : t.type === 'checkbox'
            ? null
            : block(t, depth + 1),
      )}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function table(token: Tokens.Table, depth: number): ReactNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls sideways has to be reached with keys
    <div className={s.table} tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((c, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the table is read whole
              <th key={i} scope="col">
                {inline(c.tokens, depth)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.slice(0, 500).map((row, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the table is read whole
            <tr key={i}>
              {row.map((c, k) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the table is read whole
                <td key={k}>{inline(c.tokens, depth)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[] | undefined, depth: number): ReactNode {
  if (depth > MAX_DEPTH) return visible((tokens ?? []).map((t) => t.raw).join(''));
  return keyed(tokens, (t) => {
    switch (t.type) {
      case 'strong':
        return <strong>{inline(t.tokens, depth + 1)}</strong>;
      case 'em':
        return <em>{inline(t.tokens, depth + 1)}</em>;
      case 'del':
        return <del>{inline(t.tokens, depth + 1)}</del>;
      case 'codespan':
        return <code className={s.span}>{visible(plainOf(t))}</code>;
      case 'br':
        return <br />;
      case 'link':
        return <Link href={(t as Tokens.Link).href}>{inline(t.tokens, depth + 1)}</Link>;
      case 'image':
        return <Image href={(t as Tokens.Image).href} text={(t as Tokens.Image).text} />;
      case 'escape':
        return visible(plainOf(t));
      case 'text':
        return t.tokens ? inline(t.tokens, depth + 1) : visible(plainOf(t));
      default:
        return visible(t.raw);
    }
  });
}

function keyed(tokens: Token[] | undefined, draw: (t: Token) => ReactNode): ReactNode {
  // biome-ignore lint/suspicious/noArrayIndexKey: tokens have no identity but their place
  return (tokens ?? []).map((t, i) => <Fragment key={i}>{draw(t)}</Fragment>);
}

function plainOf(t: Token): string {
  return 'text' in t && typeof t.text === 'string' ? t.text : t.raw;
}

/** An address that may be a link: elsewhere by http or mail, and nothing that runs. */
export function linkOf(href: string): URL | undefined {
  try {
    // No base: what is relative leads nowhere outside of the repository.
    const url = new URL(href);
    return url.protocol === 'https:' || url.protocol === 'http:' || url.protocol === 'mailto:' ? url : undefined;
  } catch {
    return undefined;
  }
}

function Link({ href, children }: { href: string; children: ReactNode }) {
  const url = linkOf(href);
  if (!url) return <>{children}</>;
  const where = url.protocol === 'mailto:' ? url.pathname : url.host;
  return (
    <>
      <a href={url.href} target="_blank" rel="noopener noreferrer nofollow" title={visible(url.href)}>
        {children}
      </a>
      <span className={s.host}> ({visible(where)})</span>
    </>
  );
}

function Image({ href, text }: { href: string; text: string }) {
  const url = linkOf(href);
  return (
    <span className={s.image}>
      {visible(text)} [{w.imageAt(url ? visible(url.host) : visible(href.slice(0, 80)))}]
    </span>
  );
}
