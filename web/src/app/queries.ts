import { QueryClient } from '@tanstack/react-query';
import { onSignedOut, pause } from '../api/client';
import { asProblem } from '../api/problem';
import { signedOut } from './signin';

// Lists and settings. What the event stream carries has its own store.
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (failures, error) => failures < 3 && asProblem(error).passes,
      retryDelay: (attempt) => pause(attempt),
      // A daemon on this machine answers without any network.
      networkMode: 'always',
      refetchOnWindowFocus: true,
    },
    mutations: { networkMode: 'always', retry: false },
  },
});

onSignedOut(signedOut);
