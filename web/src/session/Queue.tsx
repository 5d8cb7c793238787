import { ChevronDown, ChevronUp, Ellipsis, Pencil, RotateCw, Trash2, Zap } from 'lucide-react';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { live } from '../data/live';
import type { Outgoing } from '../data/outbox';
import type { Prompt } from '../data/prompts';
import type { Session } from '../data/session';
import { isRunning } from '../data/turns';
import { called, fields, flag } from '../data/wire';
import { Avatar } from '../ui/Avatar';
import { Button, IconButton } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import s from './composer.module.css';
import { editPrompt, movePrompt, nowPrompt, removePrompt } from './effects';
import { useHere, useQueue, useShown } from './hooks';
import { plain } from './text';
import { useWide } from './useWide';
import { w } from './words';

/** Prompts that wait, with their authors, and below them what was sent and is not accepted yet. */
export function Queue({ onEdit }: { onEdit: (text: string) => void }) {
  const { session } = useHere();
  const shown = useShown(session);
  const queue = useQueue();
  const outgoing = useOutgoing(session, queue);
  const [now, setNow] = useState<Prompt>();
  if (queue.length === 0 && outgoing.length === 0) return null;
  const held = flag(fields(shown.page.session), 'held');
  const last = session.turn(shown.turns.at(-1) ?? '');
  const busy = last !== undefined && isRunning(last);
  return (
    <section aria-label={w.queue} className={s.queue}>
      {held && <p className={s.note}>{w.held}</p>}
      <ol className={s.list}>
        {queue.map((p, i) => (
          <Item
            key={p.id}
            prompt={p}
            n={i}
            count={queue.length}
            onNow={() => (busy ? setNow(p) : void nowPrompt(session, p.id))}
          />
        ))}
        {outgoing.map((o) => (
          <Sending key={o.client} out={o} onEdit={onEdit} />
        ))}
      </ol>
      {now && (
        <Dialog
          open
          firm
          title={w.nowTitle}
          onClose={() => setNow(undefined)}
          foot={
            <>
              <Button onClick={() => setNow(undefined)}>{w.cancel}</Button>
              <Button
                kind="primary"
                onClick={() => {
                  void nowPrompt(session, now.id);
                  setNow(undefined);
                }}
              >
                {w.now}
              </Button>
            </>
          }
        >
          <p>{plain(now.text.slice(0, 300))}</p>
          <p>{w.nowText}</p>
        </Dialog>
      )}
    </section>
  );
}

/** What the daemon shows by itself is no longer ours to show. */
function useOutgoing(session: Session, queue: readonly Prompt[]): readonly Outgoing[] {
  const { outbox } = live();
  const all = useSyncExternalStore(
    (call) => outbox.on(session.id, call),
    () => outbox.of(session.id),
  );
  const known = (o: Outgoing) =>
    (o.prompt !== '' && (session.prompts.get(o.prompt) ?? session.turn(o.prompt)) !== undefined) ||
    session.prompts.byClient(o.client) !== undefined;
  useEffect(() => {
    void queue;
    outbox.settle(session.id, known);
  });
  return all.filter((o) => !known(o) && !(o.state === 'sending' && shownAlready(queue, o)));
}

/** The event may be faster than the answer to our own request. */
function shownAlready(queue: readonly Prompt[], o: Outgoing): boolean {
  return queue.some((p) => p.text === o.text && Date.parse(p.created) >= o.created - 5000);
}

function Item({ prompt, n, count, onNow }: { prompt: Prompt; n: number; count: number; onNow: () => void }) {
  const { session } = useHere();
  const [text, setText] = useState<string>();
  const roomy = useWide('(min-width: 768px)');
  const [tools, setTools] = useState(false);
  const move = (by: number) => {
    const to = n + by;
    if (to >= 0 && to < count) void movePrompt(session, prompt.id, to);
  };
  if (text !== undefined) {
    const save = () => {
      if (text.trim() && text !== prompt.text) void editPrompt(session, prompt.id, text.trim());
      setText(undefined);
    };
    return (
      <li className={s.item}>
        <textarea
          className={s.field}
          aria-label={w.edit}
          autoFocus
          value={text}
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            if (e.key === 'Escape') setText(undefined);
            if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) save();
            e.stopPropagation();
          }}
        />
        <Button size="small" onClick={() => setText(undefined)}>
          {w.cancel}
        </Button>
        <Button size="small" kind="primary" onClick={save}>
          {w.save}
        </Button>
      </li>
    );
  }
  return (
    <li
      className={s.item}
      onKeyDown={(e) => {
        if (!e.altKey || (e.key !== 'ArrowUp' && e.key !== 'ArrowDown')) return;
        e.preventDefault();
        move(e.key === 'ArrowUp' ? -1 : 1);
      }}
    >
      <Avatar person={prompt.author} size="small" />
      <span className={s.text} title={plain(prompt.text.slice(0, 2000))}>
        <span className={s.caption}>
          {w.queued(n + 1)} · {called(prompt.author)}
        </span>
        <span className={s.words}>{plain(prompt.text.slice(0, 300))}</span>
      </span>
      {!roomy && <IconButton icon={Ellipsis} label={w.more} aria-expanded={tools} onClick={() => setTools(!tools)} />}
      {(roomy || tools) && (
        <span className={s.tools}>
          <IconButton icon={ChevronUp} label={w.up} disabled={n === 0} onClick={() => move(-1)} />
          <IconButton icon={ChevronDown} label={w.down} disabled={n === count - 1} onClick={() => move(1)} />
          <IconButton icon={Pencil} label={w.edit} onClick={() => setText(prompt.text)} />
          <IconButton icon={Zap} label={w.now} onClick={onNow} />
          <IconButton icon={Trash2} label={w.remove} onClick={() => void removePrompt(session, prompt.id)} />
        </span>
      )}
    </li>
  );
}

function Sending({ out, onEdit }: { out: Outgoing; onEdit: (text: string) => void }) {
  const { session } = useHere();
  const { outbox } = live();
  const failed = out.state === 'failed';
  return (
    <li className={s.item} data-sending={out.state}>
      <span className={s.text}>
        <span className={failed ? s.failed : s.caption}>
          {failed ? `${w.notAccepted}: ${plain(out.problem)}` : w.sending}
        </span>
        <span className={s.words}>{plain(out.text.slice(0, 300))}</span>
      </span>
      {failed && (
        <span className={s.tools}>
          <IconButton icon={RotateCw} label={w.retry} onClick={() => outbox.retry(session.id, out.client)} />
          <IconButton
            icon={Pencil}
            label={w.takeBack}
            onClick={() => {
              outbox.drop(session.id, out.client);
              onEdit(out.text);
            }}
          />
          <IconButton icon={Trash2} label={w.remove} onClick={() => outbox.drop(session.id, out.client)} />
        </span>
      )}
    </li>
  );
}
