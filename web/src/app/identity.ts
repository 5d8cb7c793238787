import { queryOptions } from '@tanstack/react-query';
import { call } from '../api/client';
import type { Author, Who } from '../api/types';
import { takeSnapshot } from './snapshot';

export const whoQuery = queryOptions({
  queryKey: ['who'],
  queryFn: ({ signal }) => call<Who>('/whoami', { signal }),
  initialData: () => takeSnapshot<Who>('who'),
  staleTime: 5 * 60_000,
});

/** The name that people know, else the handle. */
export const nameOf = (who: Pick<Author, 'name' | 'handle'>): string => who.name || who.handle;
