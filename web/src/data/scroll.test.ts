import { beforeEach, expect, test } from 'vitest';
import { type Port, ScrollAuthority } from './scroll';

/** A view of 100 pixels over lines of some height, as a browser would lay them out. */
class View implements Port {
  lines: { key: string; size: number; drawn?: boolean }[] = [];
  at = 0;
  moves = 0;
  top = () => this.at;
  height = () => 100;
  full = () =>
    Math.max(
      100,
      this.lines.reduce((n, l) => n + l.size, 0),
    );
  moveTo(top: number) {
    this.at = top;
    this.moves++;
  }
  offset(key: string) {
    let y = 0;
    for (const l of this.lines) {
      if (l.key === key) return l.drawn === false ? undefined : y - this.at;
      y += l.size;
    }
    return undefined;
  }
  reveal(key: string) {
    const line = this.lines.find((l) => l.key === key);
    if (line) line.drawn = true;
    return line !== undefined;
  }
  first() {
    let y = 0;
    for (const l of this.lines) {
      if (y + l.size > this.at) return { key: l.key, offset: y - this.at };
      y += l.size;
    }
    return undefined;
  }
}

let view: View;
let a: ScrollAuthority;

beforeEach(() => {
  view = new View();
  view.lines = Array.from({ length: 50 }, (_, i) => ({ key: `l${i}`, size: 20 }));
  a = new ScrollAuthority(view);
});

const settle = () => {
  for (let i = 0; i < 5 && a.working; i++) a.layout();
};

const grow = (n = 1) => {
  for (let i = 0; i < n; i++) view.lines.push({ key: `n${view.lines.length}`, size: 20 });
  a.layout();
};

/** A person's hand: input first, then the place changes, as a browser does it. */
const hand = (to: number) => {
  a.userInput();
  view.at = Math.max(0, Math.min(to, view.full() - 100));
  a.scrolled();
};

test('follows the end while nobody scrolls', () => {
  a.restore(undefined);
  expect(view.at).toBe(900);
  grow(3);
  expect(view.at).toBe(960);
  expect(a.phase).toBe('following');
  expect(a.settled).toBe(true);
});

test('after a hand, what comes at the end does not move the view, and what grows above keeps its lines in place', () => {
  a.restore(undefined);
  hand(505);
  const moves = view.moves;
  for (let i = 0; i < 100; i++) grow();
  expect(view.at).toBe(505);
  expect(view.moves).toBe(moves);
  const line = view.lines[3];
  if (line) line.size = 320;
  a.layout();
  expect(view.at).toBe(805);
  expect(a.phase).toBe('userControlled');
});

test('back at the end by hand it follows again', () => {
  a.restore(undefined);
  hand(100);
  hand(900);
  grow();
  expect(view.at).toBe(920);
});

test('an old place is found again while lines above it still get their size, and then kept', () => {
  for (const l of view.lines) l.drawn = false;
  a.restore({ anchor: { key: 'l30', offset: -7 }, following: false });
  expect(a.phase).toBe('restoring');
  a.layout();
  expect(view.offset('l30')).toBe(-7);
  const line = view.lines[2];
  if (line) line.size = 90;
  a.layout();
  expect(view.offset('l30')).toBe(-7);
  settle();
  expect(a.settled).toBe(true);
  grow(10);
  expect(view.offset('l30')).toBe(-7);
});

test('a hand wins from every state', () => {
  const states = [
    () => a.restore({ anchor: { key: 'l30', offset: 0 }, following: false }),
    () => a.anchorTurn('l20'),
    () => a.navigate('l40'),
    () => a.follow(),
  ];
  for (const enter of states) {
    enter();
    hand(333);
    a.layout();
    grow();
    expect(view.at).toBe(333);
    expect(a.phase).toBe('userControlled');
  }
});

test('a sent prompt goes to the top once; what comes after moves nothing', () => {
  a.restore(undefined);
  view.lines.push({ key: 'mine', size: 20 }, { key: 'room', size: 80 });
  a.anchorTurn('mine');
  settle();
  expect(view.offset('mine')).toBe(0);
  const at = view.at;
  for (let i = 0; i < 50; i++) grow();
  expect(view.at).toBe(at);
});

test('a line that is gone hands over to the one at the top', () => {
  a.restore(undefined);
  hand(505);
  view.lines = view.lines.filter((l) => l.key !== 'l25');
  a.layout();
  expect(a.phase).toBe('userControlled');
  expect(a.save().anchor?.key).toBe('l26');
});

test('what a scroll draws above keeps its lines under the hand', () => {
  a.restore(undefined);
  hand(500);
  // A turn of the wheel up; before we hear of it, lines above were drawn and are higher than was thought.
  a.userInput();
  view.at = 460;
  const line = view.lines[2];
  if (line) line.size = 70;
  a.layout();
  a.scrolled();
  expect(view.at).toBe(510);
  expect(view.offset('l25')).toBe(40);
});

test('what the browser brings into view by itself ends the following', () => {
  a.restore(undefined);
  view.at = 200;
  a.scrolled();
  grow();
  expect(view.at).toBe(200);
});
