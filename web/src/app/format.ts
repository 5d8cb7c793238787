// Numbers, money, times and sizes as the person's browser writes them.
let locale: string | undefined;

/** Tests set one; people have their browser's. */
export function setLocale(name: string | undefined) {
  locale = name;
}

const made = new Map<string, unknown>();
function of<T>(name: string, make: () => T): T {
  const key = `${locale ?? ''} ${name}`;
  let value = made.get(key) as T | undefined;
  if (!value) {
    value = make();
    made.set(key, value);
  }
  return value;
}

export const number = (n: number): string => of('n', () => new Intl.NumberFormat(locale)).format(n);

export function count(n: number, words: { one: string; other: string }): string {
  const rule = of('plural', () => new Intl.PluralRules('en')).select(n);
  return `${number(n)} ${rule === 'one' ? words.one : words.other}`;
}

export const listOf = (items: string[]): string =>
  of('list', () => new Intl.ListFormat('en', { type: 'conjunction' })).format(items);

/** Millionths of a US dollar. Below a cent three digits, so that small runs do not read as nothing. */
export function money(microusd: number): string {
  const usd = microusd / 1e6;
  const digits = usd !== 0 && Math.abs(usd) < 0.01 ? 4 : 2;
  const text = of(
    `usd${digits}`,
    () => new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits }),
  ).format(usd);
  return `${text}\u00a0USD`;
}

const unit = (n: number, name: string, digits = 0): string =>
  of(
    `${name}${digits}`,
    () =>
      new Intl.NumberFormat(locale, {
        style: 'unit',
        unit: name,
        unitDisplay: 'narrow',
        maximumFractionDigits: digits,
      }),
  ).format(n);

/** Nanoseconds in at most two units: 240ms, 4.2s, 4m 12s, 2h 5m, 3d 4h. */
export function duration(ns: number): string {
  const ms = Math.max(0, ns / 1e6);
  if (ms < 1000) return unit(Math.round(ms), 'millisecond');
  const s = ms / 1000;
  if (s < 9.95) return unit(s, 'second', 1);
  if (s < 59.5) return unit(Math.round(s), 'second');
  const two = (big: number, bigName: string, small: number, smallName: string) =>
    small === 0 ? unit(big, bigName) : `${unit(big, bigName)} ${unit(small, smallName)}`;
  const whole = Math.round(s);
  if (whole < 3600) return two(Math.floor(whole / 60), 'minute', whole % 60, 'second');
  const minutes = Math.round(s / 60);
  if (minutes < 24 * 60) return two(Math.floor(minutes / 60), 'hour', minutes % 60, 'minute');
  const hours = Math.round(s / 3600);
  return two(Math.floor(hours / 24), 'day', hours % 24, 'hour');
}

const sizes = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;

export function bytes(n: number): string {
  let at = 0;
  let value = Math.max(0, n);
  while (value >= 1000 && at < sizes.length - 1) {
    value /= 1000;
    at++;
  }
  return of(
    `b${at}`,
    () =>
      new Intl.NumberFormat(locale, {
        style: 'unit',
        unit: sizes[at] ?? 'byte',
        unitDisplay: 'short',
        maximumFractionDigits: at === 0 ? 0 : 1,
      }),
  ).format(value);
}

/** `just now`, `4 min ago`, `yesterday`, then a date. */
export function relative(time: number, now: number): string {
  const s = Math.round((time - now) / 1000);
  const age = Math.abs(s);
  if (age < 45) return 'just now';
  const rel = of('rel', () => new Intl.RelativeTimeFormat(locale, { style: 'short', numeric: 'auto' }));
  if (age < 90 * 60) return rel.format(Math.round(s / 60) || Math.sign(s), 'minute');
  if (age < 36 * 3600) return rel.format(Math.round(s / 3600), 'hour');
  if (age < 7 * 86400) return rel.format(Math.round(s / 86400), 'day');
  return of('date', () => new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short', year: 'numeric' })).format(
    time,
  );
}

/** The whole time, for titles and copies. */
export const absolute = (time: number): string =>
  of('abs', () => new Intl.DateTimeFormat(locale, { dateStyle: 'long', timeStyle: 'long' })).format(time);

export const clockTime = (time: number): string =>
  of('clock', () => new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit' })).format(time);

export const shortID = (id: string): string => (id.length > 14 ? `${id.slice(0, 12)}…` : id);
