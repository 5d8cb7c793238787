/** Whether each word of what was typed begins a word of the label. */
export function fits(label: string, typed: string): boolean {
  const words = label.toLocaleLowerCase().split(/[\s:·,/]+/);
  return typed
    .toLocaleLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .every((part) => words.some((word) => word.startsWith(part)));
}
