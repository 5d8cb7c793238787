import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { asProblem } from '../api/problem';
import { whoQuery } from '../app/identity';
import { Page } from '../app/Page';
import { takeSnapshot } from '../app/snapshot';
import { Refused } from '../app/states';
import { live } from '../data/live';
import type { Session } from '../data/session';
import { readPage } from '../data/source';
import { fields, str } from '../data/wire';
import { Sheet } from '../ui/Dialog';
import { Skeleton } from '../ui/Skeleton';
import { Activity, type Moves } from './Activity';
import { Composer } from './Composer';
import { FindBar } from './FindBar';
import { Folds } from './folds';
import { Header } from './Header';
import { type Here, HereContext, useShown } from './hooks';
import { Inspector } from './Inspector';
import { JumpList } from './JumpList';
import { NeedsBar } from './NeedsBar';
import { useOutcomeWords } from './outcomes';
import s from './page.module.css';
import { foldsOf } from './places';
import { usePresence } from './presence';
import { StepRail } from './StepRail';
import { useRead } from './useRead';
import { useSessionKeys } from './useSessionKeys';
import { useWide } from './useWide';
import { w } from './words';

const route = getRouteApi('/s/$id');

export function SessionPage() {
  const { id } = route.useParams();
  const session = useOpen(id);
  if (!session) {
    return (
      <Page title={w.untitled} quiet>
        <div className={s.wait}>
          <Skeleton lines={6} />
        </div>
      </Page>
    );
  }
  return <Open key={id} session={session} />;
}

/** Opens the session while the page is on it. The snapshot that came with the document is used once. */
function useOpen(id: string): Session | undefined {
  const [open, setOpen] = useState<Session>();
  // Before the first paint: what came with the document is what is seen first.
  useLayoutEffect(() => {
    const { desk } = live();
    const inlined = takeSnapshot<unknown>('session');
    const page = inlined ? readPage(inlined) : undefined;
    const mine = page && str(fields(page.rest.session), 'id') === id ? page : undefined;
    setOpen(desk.open(id, mine));
    return () => desk.close(id);
  }, [id]);
  return open?.id === id ? open : undefined;
}

function Open({ session }: { session: Session }) {
  const shown = useShown(session);
  const me = useQuery(whoQuery).data?.user.handle ?? '';
  const [folds] = useState(() => foldsOf(session.id, live().shelf, () => new Folds()));
  const moves = useRef<Moves>(null);
  const here: Here = useMemo(
    () => ({ session, folds, me, goTo: (seq) => moves.current?.goTo(seq) }),
    [session, folds, me],
  );
  const [jump, setJump] = useState(false);
  const [find, setFind] = useState(false);
  const [sheet, setSheet] = useState(false);
  const [beside, setBeside] = useState(() => live().shelf.get('inspector') !== false);
  const wide = useWide('(min-width: 1280px)');
  const title = str(fields(shown.page.session), 'title') || w.untitled;
  const word = str(shown.view, 'word');
  useOutcomeWords(shown, title);
  useRead(session.id, shown);
  usePresence(session.id, shown.phase.is === 'ready');
  useHash(session, here);
  const toggle = () => {
    if (!wide) return setSheet(!sheet);
    live().shelf.set('inspector', !beside);
    setBeside(!beside);
  };
  useSessionKeys({
    session,
    folds,
    moves,
    shown,
    openJump: () => setJump(true),
    openFind: () => setFind(true),
    toggle,
  });

  const { phase } = shown;
  if (phase.is === 'refused' || phase.is === 'failed') {
    return (
      <Page title={title}>
        <div className={s.wait}>
          <Refused what={title} problem={asProblem(phase.problem)} retry={() => void session.open()} />
        </div>
      </Page>
    );
  }
  return (
    <HereContext value={here}>
      <Page
        title={word ? `${title} · ${word.replace('_', ' ')}` : title}
        header={
          <Header
            title={title}
            shown={shown}
            onJump={() => setJump(true)}
            onInspector={toggle}
            open={wide ? beside : sheet}
          />
        }
        bare
      >
        <div className={s.body}>
          <div className={s.column}>
            <StepRail />
            {find && <FindBar onClose={() => setFind(false)} />}
            {phase.is === 'loading' ? (
              <div className={s.wait}>
                <Skeleton lines={8} />
              </div>
            ) : (
              <Activity session={session} folds={folds} ref={moves} />
            )}
            {!(wide && beside) && <NeedsBar />}
            <Composer onSent={() => moves.current?.sent()} />
          </div>
          {wide && beside && (
            <aside className={s.aside} aria-label={w.inspector} data-region="">
              <Inspector />
            </aside>
          )}
        </div>
        {!wide && (
          <Sheet open={sheet} onClose={() => setSheet(false)} title={w.inspector}>
            <Inspector />
          </Sheet>
        )}
        {jump && <JumpList onClose={() => setJump(false)} moves={moves} />}
      </Page>
    </HereContext>
  );
}

/** #e=SEQ leads to an event, once: afterwards the address is the session's again. */
function useHash(session: Session, here: Here): void {
  const shown = useShown(session);
  const ready = shown.phase.is === 'ready';
  useEffect(() => {
    if (!ready) return;
    const look = () => {
      const seq = Number(/^#e=(\d{1,12})$/.exec(location.hash)?.[1] ?? 0);
      if (!seq) return;
      history.replaceState(history.state, '', location.pathname + location.search);
      here.goTo(seq);
    };
    look();
    window.addEventListener('hashchange', look);
    return () => window.removeEventListener('hashchange', look);
  }, [ready, here]);
}
