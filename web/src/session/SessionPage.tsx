import { getRouteApi } from '@tanstack/react-router';
import { Page } from '../app/Page';
import { t } from '../app/strings';
import { Skeleton } from '../ui/Skeleton';

const route = getRouteApi('/s/$id');

export function SessionPage() {
  const { id } = route.useParams();
  return (
    <Page title={`${t.pages.session} ${id}`}>
      <Skeleton />
    </Page>
  );
}
