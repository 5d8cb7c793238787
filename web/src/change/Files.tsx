import { useQuery } from '@tanstack/react-query';
import { memo, useMemo, useState } from 'react';
import { asProblem } from '../api/problem';
import { plain, visible } from '../session/text';
import { Button } from '../ui/Button';
import { Disclosure } from '../ui/Disclosure';
import { ErrorState } from '../ui/ErrorState';
import { Skeleton } from '../ui/Skeleton';
import s from './change.module.css';
import { BULK, type ChangeDiff, type ChangePageData, type DiffFile, patches, useFiles } from './model';
import { type Row, rowsOf } from './patch';
import { w } from './words';

/** The files in the order in which they are best read; lines come for many files at once. */
export function Files({ id, page }: { id: string; page: ChangePageData }) {
  const files = useFiles(id, page.change.head);
  const diff = files.data;
  return (
    <section aria-label={w.files}>
      <h2>{w.files}</h2>
      <p className={s.quiet}>{w.filesOf(page.files.count, page.files.added, page.files.removed)}</p>
      {files.error && !diff && (
        <ErrorState title={w.files} problem={asProblem(files.error)} retry={() => void files.refetch()} />
      )}
      {files.isPending && <Skeleton lines={4} />}
      {diff && diff.items.length === 0 && <p className={s.quiet}>{w.noFiles}</p>}
      {diff?.groups.map((g) => (
        <Disclosure
          key={g.name}
          open={g.mode !== 'skim'}
          summary={
            <span className={s.facts}>
              <strong>{plain(g.name)}</strong>
              <span>{plain(g.why)}</span>
            </span>
          }
        >
          {g.files.map((n) => {
            const file = diff.items.find((f) => f.n === n);
            return file && <File key={n} id={id} diff={diff} file={file} open={g.mode !== 'skim'} />;
          })}
        </Disclosure>
      ))}
      {diff?.more ? <p className={s.quiet}>{w.moreFiles(diff.more)}</p> : null}
    </section>
  );
}

/** Patches of the bulk that a file belongs to: forty files are one request, whichever of them is opened first. */
function usePatch(id: string, diff: ChangeDiff, file: DiffFile, wanted: boolean) {
  const at = diff.items.findIndex((f) => f.n === file.n);
  const bulk = Math.floor(at / BULK);
  return useQuery({
    queryKey: ['change', id, 'patches', diff.digest, bulk],
    queryFn: ({ signal }) =>
      patches(
        id,
        diff,
        diff.items.slice(bulk * BULK, (bulk + 1) * BULK).map((f) => f.n),
        signal,
      ),
    enabled: wanted && file.kind === 'text',
    staleTime: Number.POSITIVE_INFINITY,
    select: (all) => all.find((p) => p.n === file.n),
  });
}

function File({ id, diff, file, open }: { id: string; diff: ChangeDiff; file: DiffFile; open: boolean }) {
  const [shown, setShown] = useState(open);
  const patch = usePatch(id, diff, file, shown);
  return (
    <Disclosure
      open={shown}
      onToggle={setShown}
      summary={
        <span className={s.facts}>
          <code className={s.path}>{visible(file.path)}</code>
          {file.old_path && file.old_path !== file.path && <span>{w.was(visible(file.old_path))}</span>}
          <span className="num">{`+${file.added} −${file.removed}`}</span>
          {file.coverage && <span>{w.coverage(file.coverage.hit, file.coverage.of)}</span>}
          {file.why && <span>{plain(file.why)}</span>}
        </span>
      }
    >
      {file.kind !== 'text' && <p className={s.quiet}>{w.fileKinds[file.kind] ?? plain(file.kind)}</p>}
      {patch.error && (
        <ErrorState title={w.files} problem={asProblem(patch.error)} retry={() => void patch.refetch()} />
      )}
      {shown && patch.isLoading && <Skeleton lines={3} />}
      {patch.data && <Lines text={patch.data.patch} cut={patch.data.cut === true} label={visible(file.path)} />}
    </Disclosure>
  );
}

const FIRST = 400;

const Lines = memo(function Lines({ text, cut, label }: { text: string; cut: boolean; label: string }) {
  const [all, setAll] = useState(false);
  const read = useMemo(() => rowsOf(text), [text]);
  if (read.rows.length === 0) return <p className={s.quiet}>{w.noLines}</p>;
  const rows = all ? read.rows : read.rows.slice(0, FIRST);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys */}
      <section className={s.diff} aria-label={label} tabIndex={0}>
        <table>
          <tbody>
            {rows.map((row, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines of one patch do not move
              <Line key={at} row={row} />
            ))}
          </tbody>
        </table>
      </section>
      {rows.length < read.rows.length && (
        <Button size="small" onClick={() => setAll(true)}>
          {w.moreLines(read.rows.length - rows.length)}
        </Button>
      )}
      {(cut || read.cut) && <p className={s.quiet}>{w.cut}</p>}
    </>
  );
});

const sign: Record<Row['kind'], string> = { hunk: '', same: ' ', added: '+', removed: '−', note: '' };

function Line({ row }: { row: Row }) {
  const text = row.text.length > 4096 ? `${row.text.slice(0, 4096)} …` : row.text;
  return (
    <tr className={s[row.kind]}>
      <td className={s.at}>{row.old ?? ''}</td>
      <td className={s.at}>{row.now ?? ''}</td>
      <td className={s.sign}>{sign[row.kind]}</td>
      <td className={s.code}>{visible(text)}</td>
    </tr>
  );
}
