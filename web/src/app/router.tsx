import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { Root } from './Root';
import { inboxSearch, sessionSearch } from './search';
import { NotFound, RouteError, RoutePending } from './states';

const root = createRootRoute({ component: Root, notFoundComponent: NotFound, errorComponent: RouteError });

const inbox = createRoute({
  getParentRoute: () => root,
  path: '/',
  validateSearch: inboxSearch,
  component: lazyRouteComponent(() => import('../inbox/InboxPage'), 'InboxPage'),
});

const session = createRoute({
  getParentRoute: () => root,
  path: '/s/$id',
  validateSearch: sessionSearch,
  component: lazyRouteComponent(() => import('../session/SessionPage'), 'SessionPage'),
});

const change = createRoute({
  getParentRoute: () => root,
  path: '/changes/$id',
  component: lazyRouteComponent(() => import('../change/ChangePage'), 'ChangePage'),
});

const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings/appearance',
  component: lazyRouteComponent(() => import('./SettingsPage'), 'SettingsPage'),
});

const gallery = createRoute({
  getParentRoute: () => root,
  path: '/gallery',
  component: lazyRouteComponent(() => import('../gallery/GalleryPage'), 'GalleryPage'),
});

export const router = createRouter({
  routeTree: root.addChildren([inbox, session, change, settings, gallery]),
  defaultPreload: 'intent',
  defaultPendingComponent: RoutePending,
  // A skeleton comes only when there is something to wait for.
  defaultPendingMs: 150,
  defaultErrorComponent: RouteError,
  scrollRestoration: false,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
