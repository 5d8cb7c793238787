import { Page } from '../app/Page';
import { t } from '../app/strings';

export const GalleryPage = () => <Page title={t.pages.gallery}>{null}</Page>;
