import { ChevronRight } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { address } from '../api/client';
import { bytes, duration, number } from '../app/format';
import type { Group, Row } from '../data/rows';
import { author, called, fields, num, str, strings } from '../data/wire';
import { Button } from '../ui/Button';
import { cx } from '../ui/cx';
import { Body } from './Body';
import { cutSize, parts, tell } from './body';
import { useFolds, useHere } from './hooks';
import { Markdown } from './Markdown';
import s from './rows.module.css';
import { plain, visible } from './text';
import { w } from './words';

// One row of an open turn, drawn by its kind. A row is a new object when it changes, so an old one is never drawn again.

export const RowView = memo(function RowView({ row, open }: { row: Row; open: boolean }) {
  const d = (row.end ?? row.event).data;
  switch (row.kind) {
    case 'text':
      return (
        <div className={s.said}>
          <Markdown text={str(d, 'text')} />
          {cutSize(row) > 0 && <Whole row={row} />}
        </div>
      );
    case 'tool':
      return <ToolRow row={row} open={open} />;
    case 'thought':
      return (
        <Opening row={row} open={open} verb={w.thought} object={plain(str(d, 'text')).slice(0, 160)}>
          <p className={s.thought}>{visible(str(d, 'text'))}</p>
        </Opening>
      );
    case 'node':
      return <NodeRow row={row} />;
    case 'machine':
      return <Line verb={machineVerb(row)} object={machineObject(row)} ns={num(d, 'duration_ns')} />;
    case 'picture':
      return <PictureRow row={row} />;
    case 'denied':
      return (
        <Card tone="ask" title={w.denied(`${plain(str(d, 'host'))}:${num(d, 'port')}`)}>
          <p>{plain(str(d, 'reason'))}</p>
          {str(d, 'hint') && <p className={s.quiet}>{plain(str(d, 'hint'))}</p>}
          {num(d, 'count') > 1 && <p className={s.caption}>{w.times(num(d, 'count'))}</p>}
        </Card>
      );
    case 'check':
      return (
        <Line
          verb={w.check(plain(str(d, 'check')), str(d, 'cell'))}
          object={w.counts(num(d, 'passed'), num(d, 'failed'), num(d, 'skipped'))}
          result={plain(str(d, 'result'))}
          failed={row.failed}
          ns={num(d, 'duration_ns')}
        />
      );
    case 'commit':
      return (
        <Line
          verb={w.commit(plain(str(d, 'subject')))}
          object={`${w.files(num(d, 'files'))}, +${number(num(d, 'added'))} −${number(num(d, 'removed'))}`}
          result={str(d, 'commit').slice(0, 10)}
        />
      );
    case 'change':
      return <Line verb={w.change(num(d, 'number'), plain(str(d, 'action')))} object={plain(str(d, 'title'))} />;
    case 'comment': {
      const path = str(d, 'path');
      return (
        <Card title={w.comment(called(author(d, 'author')), path ? `${plain(path)}:${num(d, 'line')}` : '')}>
          <Markdown text={str(d, 'body')} />
        </Card>
      );
    }
    case 'verdict':
      return (
        <Card tone={toneOf(str(d, 'verdict'))} title={w.verdictNames[str(d, 'verdict')] ?? plain(str(d, 'verdict'))}>
          {strings(d, 'reasons').map((r) => (
            <p key={r}>{plain(r)}</p>
          ))}
        </Card>
      );
    case 'approval': {
      const asked = str(d, 'question') || str(d, 'reason');
      const state = str(d, 'to') || str(d, 'state');
      return (
        <Card tone="ask" title={state === 'pending' || !state ? w.approvalAsked : w.approvalState(state)}>
          <p>{plain(asked)}</p>
        </Card>
      );
    }
    case 'budget':
      return row.event.actor === 'platform' ? (
        <Card tone="ask" title={w.budgetSpent(plain(str(d, 'what')))}>
          <p>{w.spentOf(plain(str(d, 'spent')), plain(str(d, 'limit')))}</p>
        </Card>
      ) : (
        <Line verb={w.budgetSet(plain(str(d, 'what')), plain(str(d, 'limit')))} object="" />
      );
    case 'warning':
      return (
        <Card tone="ask" title={plain(str(d, 'message'))}>
          {str(d, 'hint') && <p className={s.quiet}>{plain(str(d, 'hint'))}</p>}
        </Card>
      );
    case 'run':
      return row.failed ? (
        <Card tone="bad" title={plain(str(fields(d.failure), 'message')) || w.failed}>
          {str(fields(d.failure), 'hint') && <p className={s.quiet}>{plain(str(fields(d.failure), 'hint'))}</p>}
        </Card>
      ) : null;
    case 'model':
      return <Line verb={w.modelFailed(plain(str(d, 'outcome')))} object={plain(str(d, 'model'))} failed />;
    case 'selection':
      return <Line verb={w.selection(plain(str(d, 'action')))} object={plain(str(d, 'reason'))} />;
    default:
      return (
        <Opening row={row} open={open} verb={w.unknownEvent(plain(row.event.kind))} object="">
          <Body
            part={{ title: 'output', text: JSON.stringify(row.event.data, null, 2), diff: false }}
            title={row.event.kind}
          />
        </Opening>
      );
  }
});

export function toneOf(verdict: string): 'ok' | 'bad' | 'unp' {
  return verdict === 'proven' ? 'ok' : verdict === 'broken' ? 'bad' : 'unp';
}

function Line(p: { verb: string; object: string; result?: string; failed?: boolean; ns?: number }) {
  return (
    <div className={s.row}>
      <span className={s.verb}>{p.verb}</span>
      <span className={cx(s.object, s.quiet)}>{p.object}</span>
      <span className={s.end}>
        {p.result && <span className={cx(p.failed && s.failed)}>{p.result}</span>}
        {p.ns ? <span>{duration(p.ns)}</span> : null}
      </span>
    </div>
  );
}

function Card({ tone, title, children }: { tone?: 'ask' | 'bad' | 'ok' | 'unp'; title: string; children: ReactNode }) {
  return (
    <div className={s.space}>
      <div className={cx(s.card, tone && s[tone])}>
        <p className={s.title}>{title}</p>
        {children}
      </div>
    </div>
  );
}

/** A row that opens to its body. */
function Opening(p: {
  row: Row;
  open: boolean;
  verb: string;
  object: string;
  code?: boolean;
  result?: string;
  failed?: boolean;
  ns?: number;
  children: ReactNode;
}) {
  const { folds } = useHere();
  return (
    <>
      <button type="button" className={s.row} aria-expanded={p.open} onClick={() => folds.toggle(p.row.key)}>
        <ChevronRight size={14} aria-hidden="true" className={cx(s.sign, p.open && s.turned)} />
        <span className={s.verb}>{p.verb}</span>
        <span className={cx(s.object, p.code && s.mono)}>{p.object}</span>
        <span className={s.end}>
          {p.result && <span className={cx(p.failed && s.failed)}>{p.result}</span>}
          {p.ns ? <span>{duration(p.ns)}</span> : null}
        </span>
      </button>
      {p.open && <div className={s.open}>{p.children}</div>}
    </>
  );
}

function ToolRow({ row, open }: { row: Row; open: boolean }) {
  const told = tell(row, w.verbs, w.exit, w);
  const title = plain(told.object) || told.verb;
  return (
    <Opening
      row={row}
      open={open}
      verb={told.verb}
      object={title}
      code={told.code}
      result={told.result}
      failed={row.failed}
      ns={told.duration}
    >
      <ToolBody row={row} title={title} />
    </Opening>
  );
}

/** The rest of a text that came cut. */
function Whole({ row }: { row: Row }) {
  const { session } = useHere();
  return (
    <Button
      size="small"
      kind="quiet"
      onClick={() => {
        for (const e of [row.event, row.end]) if (e?.cut) session.needBody(e.seq);
      }}
    >
      {w.wholeText(bytes(cutSize(row)))}
    </Button>
  );
}

function ToolBody({ row, title }: { row: Row; title: string }) {
  const all = parts(row);
  if (all.length === 0) return <p className={s.quiet}>{w.noOutput}</p>;
  return (
    <>
      {all.map((p) => (
        <Body key={p.title} part={p} title={title} />
      ))}
      {cutSize(row) > 0 && <Whole row={row} />}
    </>
  );
}

function NodeRow({ row }: { row: Row }) {
  const d = row.event.data;
  const end = row.end?.data;
  const number = num(d, 'number');
  return (
    <div className={s.node}>
      <span>{plain(str(d, 'title') || str(d, 'node'))}</span>
      {number > 1 && <span>{w.attempt(number)}</span>}
      {end && row.end !== row.event && (
        <span className={cx(row.failed && s.failed)}>
          {plain(str(end, 'result'))} {num(end, 'duration_ns') > 0 && duration(num(end, 'duration_ns'))}
        </span>
      )}
    </div>
  );
}

function PictureRow({ row }: { row: Row }) {
  const d = row.event.data;
  const digest = str(d, 'digest');
  const name = plain(str(d, 'name') || str(d, 'url'));
  // Only what is named by its digest is fetched, and only from here.
  if (!/^sha256:[0-9a-f]{64}$/.test(digest)) return <Line verb={w.pictureOf(name)} object={plain(str(d, 'url'))} />;
  return (
    <figure className={s.figure}>
      <img
        src={address(`/blobs/${digest}`)}
        alt={w.pictureOf(name)}
        width={num(d, 'width') || undefined}
        height={num(d, 'height') || undefined}
        loading="lazy"
        decoding="async"
      />
      <figcaption className={s.caption}>
        {name} · {plain(str(d, 'url'))}
      </figcaption>
    </figure>
  );
}

function machineVerb(row: Row): string {
  const d = row.event.data;
  if (row.event.kind === 'sandbox.state') return `Sandbox ${plain(str(d, 'state'))}`;
  if (row.event.kind === 'service.state') return `${plain(str(d, 'service'))} ${plain(str(d, 'state'))}`;
  if (row.event.kind === 'phase') return plain(str(d, 'name').replaceAll('_', ' '));
  return plain(row.event.kind);
}

function machineObject(row: Row): string {
  const d = row.event.data;
  const from = str(d, 'from');
  return plain(str(d, 'detail') || str(d, 'cause') || (from ? `from ${from}` : '') || str(d, 'text').slice(0, 200));
}

/** A group of like rows, closed: how many, how many failed, and the one at work. */
export const GroupView = memo(function GroupView({ group, open }: { group: Group; open: boolean }) {
  const { folds } = useHere();
  useFolds(folds);
  const n = group.rows.length;
  const made = w.groups[group.like as 'look'];
  const label = made ? made(n) : w.groups.other(plain(group.like.replace(/^tool:/, '')), n);
  const last = group.rows[n - 1];
  const running = last?.kind === 'tool' && !last.end ? tell(last, w.verbs, w.exit, w) : undefined;
  return (
    <button type="button" className={s.row} aria-expanded={open} onClick={() => folds.toggle(group.key)}>
      <ChevronRight size={14} aria-hidden="true" className={cx(s.sign, open && s.turned)} />
      <span className={s.verb}>{label}</span>
      {running && <span className={cx(s.object, s.mono)}>{plain(running.object)}</span>}
      <span className={s.end}>
        {running && <span>{w.running}</span>}
        {group.failed > 0 && <span>{w.failedTools(group.failed)}</span>}
      </span>
    </button>
  );
});
