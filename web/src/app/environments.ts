import { queryOptions } from '@tanstack/react-query';
import { call } from '../api/client';
import type { Environment, List } from '../api/types';

/** Environments, for whatever page names them. There are few. */
export const environmentsQuery = queryOptions({
  queryKey: ['environments'],
  queryFn: ({ signal }) => call<List<Environment>>('/environments', { query: { limit: 500 }, signal }),
  staleTime: 60_000,
});
