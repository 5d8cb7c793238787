import { Page } from './Page';
import { t } from './strings';

export const SettingsPage = () => <Page title={t.settings.title}>{null}</Page>;
