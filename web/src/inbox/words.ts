import type { View } from '../api/types';
import { count, number } from '../app/format';
import { t } from '../app/strings';

// The words of the inbox.
export const w = {
  sections: { needs: 'Needs you', running: 'Running', recent: 'Recent' },
  nothingNeeds: 'Nothing needs you.',
  unread: 'Unread',
  markRead: 'Mark as read',
  markUnread: 'Mark as unread',
  markedRead: (title: string) => `Read: ${title}`,
  untitled: 'Untitled task',
  rows: 'Sessions',
  searchLabel: 'Search tasks',
  searchPlaceholder: 'Search tasks',
  whose: 'Whose sessions',
  all: 'All',
  mine: 'Mine',
  environment: 'Environment',
  anyEnvironment: 'All environments',
  noFit: 'No session fits these filters',
  clear: 'Clear filters',
  moreFailed: 'The next rows could not be read.',
  title: (n: number) => (n > 0 ? `(${number(n)}) Inbox` : 'Inbox'),
  added: (n: number) => `+${number(n)}`,
  removed: (n: number) => `−${number(n)}`,
  lines: (added: number, removed: number, files: number) =>
    `${count(added, { one: 'line', other: 'lines' })} added, ${count(removed, { one: 'line', other: 'lines' })} removed in ${count(files, { one: 'file', other: 'files' })}`,
  oneOf: 'One of several for the same task',
  several: 'one of several',
  childOf: 'Started by the session above',
  what: 'The inbox',
  markFailed: 'The mark was not kept',
  spoken: (title: string, view: View) => `${title}: ${t.stateWord(view.word, view.position)}. ${view.reason}`,

  composer: {
    label: 'What should be done?',
    placeholder: 'What should be done?',
    title: 'New task',
    environment: 'Environment',
    choose: 'Environment…',
    options: 'Options',
    blueprint: 'Blueprint',
    blueprintHelp: 'The steps that a session goes through. Empty: code-change.',
    model: 'Model',
    modelHelp: 'Empty: the daemon’s.',
    base: 'Base',
    baseHelp: (branch: string) => `Branch or commit to start from. Empty: ${branch}.`,
    defaultBranch: 'the default branch',
    budget: 'Budget in USD',
    budgetHelp: 'The session stops and asks when it is spent. Empty: the daemon’s.',
    budgetWrong: 'Enter a sum like 5 or 0.50.',
    budgetOf: (text: string) => `${text} USD`,
    done: 'Done',
    start: 'Start',
    needText: 'Write what should be done.',
    needEnvironment: 'Choose the environment that it runs in.',
    warm: 'A sandbox is ready',
    started: (title: string) => `Started: ${title}`,
    open: 'Open',
    failed: 'The task was not started; it is kept here.',
    noEnvironments: 'There is no environment yet to run it in; what you write is kept.',
    environmentsFailed: 'The environments could not be read.',
  },

  first: {
    title: 'Start with one of these, or with your own',
    text: 'An agent works on it alone, in a disposable copy of the environment, and hands back a change with evidence.',
    noEnvironment: 'First, make an environment of a repository',
    noEnvironmentText:
      'It is read from drydock.yaml or devcontainer.json. On the machine that runs Drydock, one of these makes one:',
    yours: 'Your repository',
    demo: 'A bundled shop and a whole session on it, without any key',
    doctor: 'What this machine lacks, if something does not work',
    commands: {
      build: 'drydock env build /path/or/url/of/repository',
      demo: 'drydock demo',
      doctor: 'drydock doctor',
    },
  },

  keys: {
    next: 'Next session',
    previous: 'Previous session',
    open: 'Open session',
    read: 'Mark as read',
    unread: 'Mark as unread',
    search: 'Search',
    compose: 'New task',
    send: 'Start the task',
  },
} as const;

/** Real tasks: those of the bundled shop have something to find there, the others hold in any repository. */
export const examples: Record<'shop' | 'any', readonly string[]> = {
  shop: [
    'A discount code takes its share off one piece of each line; it should come off all of them. Fix it and add a test.',
    'Say on the cart page that at most 99 of one thing fit, before the shop refuses it. Picture the page before and after.',
    'Let the catalogue be sorted by price and by name, with the choice in the address. Test it.',
  ],
  any: [
    'Find a test that passes or fails by chance, explain why, and make it steady.',
    'Follow the README from a fresh checkout. Correct every command that does not work as written.',
    'Find an error that is swallowed without a word, return or log it where it belongs, and add a test.',
  ],
};
