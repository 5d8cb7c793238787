import { useQuery } from '@tanstack/react-query';
import { address, call, part } from '../api/client';
import { problemOf } from '../api/problem';
import type { components } from '../api/schema';

export type ChangePageData = components['schemas']['ChangePage'];
export type ChangeDiff = components['schemas']['ChangeDiff'];
export type DiffFile = components['schemas']['DiffFile'];
export type PageCheck = components['schemas']['PageCheck'];
export type PagePicture = components['schemas']['PagePicture'];

export interface Patch {
  n: number;
  patch: string;
  cut?: boolean;
}

const of = (id: string) => `/changes/${part(id)}`;

export const useChange = (id: string) =>
  useQuery({ queryKey: ['change', id], queryFn: ({ signal }) => call<ChangePageData>(`${of(id)}/page`, { signal }) });

export const useFiles = (id: string, head: string) =>
  useQuery({
    queryKey: ['change', id, 'files', head],
    queryFn: ({ signal }) => call<ChangeDiff>(`${of(id)}/files`, { signal }),
    enabled: head !== '',
    staleTime: Number.POSITIVE_INFINITY,
  });

/** How many files one request asks for: what a person sees first comes with the first one. */
export const BULK = 40;

/** Patches of some files between two commits. Lines of JSON, one for each file; the last says what is missing. */
export async function patches(id: string, diff: ChangeDiff, files: number[], signal?: AbortSignal): Promise<Patch[]> {
  const out: Patch[] = [];
  let next = files.join(',');
  while (next !== '') {
    const answer = await fetch(
      address(`${of(id)}/patches`, { from: diff.from, to: diff.to, digest: diff.digest, files: next }),
      { credentials: 'same-origin', cache: 'no-store', redirect: 'error', signal: signal ?? null },
    );
    if (!answer.ok) throw problemOf(answer.status, await answer.json().catch(() => undefined));
    next = '';
    for (const line of (await answer.text()).split('\n')) {
      if (line === '') continue;
      const value = JSON.parse(line) as Partial<Patch> & { next?: string };
      if (typeof value.n === 'number' && typeof value.patch === 'string') out.push(value as Patch);
      else if (typeof value.next === 'string') next = value.next;
    }
  }
  return out;
}

export const fileOf = (evidence: string, digest: string) =>
  address(`/evidence/${part(evidence)}/files/${part(digest)}`);

export const act = (id: string, what: 'approve' | 'merge' | 'hand-back', body: unknown) =>
  call<unknown>(`${of(id)}/${what}`, { method: 'POST', body });
