/** An identifier of this browser's own making. Works without a secure context, where randomUUID is missing. */
export function randomId(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return prefix + Array.from(bytes, (b) => b.toString(36).padStart(2, '0')).join('');
}
