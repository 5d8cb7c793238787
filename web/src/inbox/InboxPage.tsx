import { Page } from '../app/Page';
import { t } from '../app/strings';

export const InboxPage = () => <Page title={t.pages.inbox}>{null}</Page>;
