// Every word of the page, in one typed place. What changes with a number or a name is a function.
// Pages with many words of their own keep them in a file of the same kind beside them.
import type { Role, Word } from '../api/types';
import { count, listOf, number } from './format';

export const t = {
  product: 'Drydock',
  skipToContent: 'Skip to content',
  skipToNavigation: 'Skip to navigation',
  navigation: 'Navigation',
  openNavigation: 'Open navigation',
  close: 'Close',
  retry: 'Try again',
  copyDetails: 'Copy details',
  copy: 'Copy',
  copied: 'Copied',
  loading: 'Loading',
  pages: { inbox: 'Inbox', settings: 'Appearance', gallery: 'Gallery', session: 'Session' },
  newTask: 'New task',
  search: 'Search',
  commands: 'Commands',
  signOut: 'Sign out',
  environments: 'Environments',
  needYou: 'need you',
  needs: (n: number) => (n === 1 ? 'One session needs you' : `${number(n)} sessions need you`),
  signedInAs: (name: string) => `Signed in as ${name}`,
  theme: 'Theme',
  themes: { system: 'As the system', light: 'Light', dark: 'Dark' },

  errors: {
    what: (what: string) => `${what} could not be read`,
    notFound: 'Nothing is here',
    notFoundText: 'This address leads to nothing that exists. It may have been mistyped.',
    gone: 'This is gone',
    goneText: 'It existed and was removed. Its events are kept as long as the daemon is set to keep them.',
    forbidden: 'This is not open to you',
    forbiddenText: 'It exists, and you may not see it. Somebody with access can let you in.',
    offline: 'The daemon does not answer',
    offlineText: 'The page goes on trying. Nothing that you wrote is lost.',
    crashed: 'This part of the page failed',
    details: 'Details',
    fault: (id: string) => `Fault ${id} in the daemon’s log`,
  },

  connection: {
    reconnecting: (since: string) => `Reconnecting, showing ${since}`,
    waitEffects: 'Not connected: this waits until the daemon answers again',
    back: 'Connected again',
    outdated: 'The daemon was updated. Reload when it suits you; what you wrote is kept.',
    reload: 'Reload',
  },

  login: {
    title: 'Sign in to Drydock',
    secret: 'Token or one-use code',
    help: 'On the machine that runs Drydock, drydock web prints a code that holds for five minutes.',
    submit: 'Sign in',
    wrong: 'This token or code is not accepted. Codes hold for five minutes and work once.',
    again: 'Your sign-in has ended. Sign in to go on; what you wrote is kept.',
    empty: 'Enter a token or a code.',
  },

  keys: {
    title: 'Keyboard shortcuts',
    off: 'Single keys are switched off; those with Ctrl or Cmd hold.',
    thenKey: 'then',
    groups: { go: 'Go to', list: 'Lists', act: 'Do', help: 'Help' },
    palette: 'Commands',
    shortcuts: 'Keyboard shortcuts',
    goInbox: 'Inbox',
    nextRegion: 'Next region',
  },

  palette: {
    label: 'Search commands and sessions',
    none: (q: string) => `Nothing fits “${q}”`,
    pages: 'Pages',
    commands: 'Commands',
    sessions: 'Sessions',
    themeTo: (name: string) => `Theme: ${name}`,
  },

  settings: {
    title: 'Appearance and keyboard',
    device: 'These settings are kept on this device.',
    diff: 'Colours of changes',
    diffs: { green: 'Green and red', blue: 'Blue and orange' },
    diffHelp: 'Blue and orange differ for people who do not tell green from red.',
    sample: 'A removed and an added line',
    sampleRemoved: 'total = price - discount(price)',
    sampleAdded: 'total = price - discount(price) * quantity',
    single: 'Single keys',
    singleHelp: 'Keys like j, k and e without Ctrl or Cmd. Switch them off when dictation or slips press them.',
  },

  noneFits: 'Nothing fits',
  more: 'Show more',
  shownOf: (shown: number, total: number) => `${number(shown)} of ${number(total)}`,
  splitter: 'Drag, or move with the arrow keys',

  /** The one word for what a session does, as in the command line. */
  words: {
    draft: 'Draft',
    queued: 'Queued',
    starting: 'Starting',
    working: 'Working',
    needs_you: 'Needs you',
    paused: 'Paused',
    stopping: 'Stopping',
    stopped: 'Stopped',
    proven: 'Proven',
    unproven: 'Unproven',
    broken: 'Broken',
    answered: 'Answered',
    handed_over: 'Handed over',
    merged: 'Merged',
    closed: 'Closed',
    lost: 'Lost contact',
  } as Record<Word, string>,
  roles: { idle: '', run: '', ask: '', ok: '', unp: '', bad: '' } as Record<Role, string>,
  /** A word that this page does not know yet is shown as it came. */
  stateWord(word: Word, position?: number): string {
    const text = this.words[word] ?? word;
    return word === 'queued' && position ? `${text} #${number(position)}` : text;
  },

  listOf,
  files: (n: number) => count(n, { one: 'file', other: 'files' }),
} as const;
