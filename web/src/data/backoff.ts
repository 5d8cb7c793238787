/** How long to wait before try n (from 0): doubling, at most 30 s, jittered so that browsers do not come back at once. */
export function backoff(n: number, random: () => number): number {
  const top = Math.min(30_000, 500 * 2 ** Math.min(n, 10));
  return top / 2 + (top / 2) * random();
}
