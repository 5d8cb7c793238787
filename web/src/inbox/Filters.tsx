import { useNavigate } from '@tanstack/react-router';
import { Search, X } from 'lucide-react';
import { type RefObject, useEffect, useRef, useState } from 'react';
import type { Environment } from '../api/types';
import { type InboxSearch, inboxSearch } from '../app/search';
import { IconButton } from '../ui/Button';
import { Choice } from '../ui/Choice';
import { Select } from '../ui/Field';
import s from './Filters.module.css';
import { w } from './words';

/** What is looked for stands in the address: it can be sent, and Back undoes it. */
export function Filters(props: {
  search: InboxSearch;
  environments: Environment[];
  field: RefObject<HTMLInputElement | null>;
}) {
  const { search, environments, field } = props;
  const navigate = useNavigate();
  const go = (change: Partial<Record<keyof InboxSearch, string | true | undefined>>, replace = false) =>
    void navigate({ to: '/', search: inboxSearch({ ...search, ...change }), replace });
  const [text, setText] = useState(search.q ?? '');
  const put = useRef('');
  const latest = useRef(go);
  latest.current = go;

  // Back, forward and the palette change the address from outside.
  useEffect(() => {
    if ((search.q ?? '') !== put.current) setText(search.q ?? '');
    put.current = search.q ?? '';
  }, [search.q]);

  useEffect(() => {
    const q = text.trim().slice(0, 200);
    if (q === put.current) return;
    const timer = setTimeout(() => {
      put.current = q;
      // Typing makes one entry of the history, not one for each letter.
      latest.current({ q }, true);
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);

  const known = environments.some((e) => e.name === search.environment);
  return (
    <search className={s.filters}>
      <div className={s.search}>
        <Search size={16} aria-hidden="true" className={s.sign} />
        <input
          ref={field}
          type="search"
          className={s.input}
          aria-label={w.searchLabel}
          placeholder={w.searchPlaceholder}
          value={text}
          maxLength={200}
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            if (e.key !== 'Escape') return;
            e.preventDefault();
            if (text) setText('');
            else e.currentTarget.blur();
          }}
        />
        {text && <IconButton icon={X} label={w.clear} className={s.clear} onClick={() => setText('')} />}
      </div>
      <Choice
        label={w.whose}
        hideLabel
        value={search.mine ? 'mine' : 'all'}
        options={[
          { value: 'all', label: w.all },
          { value: 'mine', label: w.mine },
        ]}
        onChange={(value) => go({ mine: value === 'mine' ? true : undefined })}
      />
      {(environments.length > 1 || search.environment) && (
        <div className={s.environment}>
          <Select
            label={w.environment}
            hideLabel
            value={search.environment ?? ''}
            options={[
              { value: '', label: w.anyEnvironment },
              ...environments.map((e) => ({ value: e.name, label: e.name })),
              ...(search.environment && !known ? [{ value: search.environment, label: search.environment }] : []),
            ]}
            onChange={(e) => go({ environment: e.target.value })}
          />
        </div>
      )}
    </search>
  );
}
