import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { Announcer } from './announcer';
import { queries } from './queries';
import { router } from './router';

export function App() {
  return (
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
      <Announcer />
    </QueryClientProvider>
  );
}
