import { useQuery } from '@tanstack/react-query';
import { Outlet } from '@tanstack/react-router';
import { asProblem } from '../api/problem';
import { AppFrame } from './AppFrame';
import { whoQuery } from './identity';
import { Login } from './Login';
import { useSignInNeeded } from './signin';
import { Blank, Offline } from './states';

/** The frame with a page in it; in front of it the sign-in, when the daemon does not know this browser. */
export function Root() {
  const needed = useSignInNeeded();
  const who = useQuery(whoQuery);
  if (who.data) {
    return (
      <>
        <AppFrame>
          <Outlet />
        </AppFrame>
        {needed && <Login again />}
      </>
    );
  }
  if (needed) return <Login />;
  if (who.error && asProblem(who.error).code !== 'unauthorized') {
    return <Offline problem={asProblem(who.error)} retry={() => void who.refetch()} />;
  }
  return <Blank />;
}
