// Time and chance, as far as the data layer needs them: replaced in tests.

export interface Clock {
  now(): number;
  random(): number;
  /** Calls back once; the answer calls it off. */
  after(ms: number, call: () => void): () => void;
}

export const realClock: Clock = {
  now: () => Date.now(),
  random: () => Math.random(),
  after: (ms, call) => {
    const t = setTimeout(call, ms);
    return () => clearTimeout(t);
  },
};
