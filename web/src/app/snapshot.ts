// The daemon writes what the asked page needs first into the document, as JSON that nothing runs:
// {"who": ..., "inbox": ...} or {"who": ..., "session": ...}, the latter also taken as "page". It is read once; later it would be old.
let parts: Record<string, unknown> | undefined;

export function readSnapshot(text: string | null | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text || '{}');
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}

/** A part of the document's snapshot, the first time that it is asked for. */
export function takeSnapshot<T>(name: string): T | undefined {
  parts ??= readSnapshot(document.getElementById('snapshot')?.textContent);
  const key = name === 'page' && !('page' in parts) ? 'session' : name;
  const value = parts[key];
  delete parts[key];
  return value as T | undefined;
}
