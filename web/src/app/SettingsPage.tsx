import { Choice } from '../ui/Choice';
import { Switch } from '../ui/Toggle';
import { setLook, useLook } from './look';
import { Page } from './Page';
import s from './SettingsPage.module.css';
import { t } from './strings';

const themes = (['system', 'light', 'dark'] as const).map((value) => ({ value, label: t.themes[value] }));
const diffs = (['green', 'blue'] as const).map((value) => ({ value, label: t.settings.diffs[value] }));

/** What this device looks like and which keys it takes. */
export function SettingsPage() {
  const look = useLook();
  return (
    <Page title={t.settings.title}>
      <div className={s.settings}>
        <p className={s.text}>{t.settings.device}</p>
        <Choice label={t.theme} value={look.theme} options={themes} onChange={(theme) => setLook({ theme })} />
        <div className={s.setting}>
          <Choice label={t.settings.diff} value={look.diff} options={diffs} onChange={(diff) => setLook({ diff })} />
          <p className={s.text}>{t.settings.diffHelp}</p>
          <ul className={s.sample} aria-label={t.settings.sample}>
            <li className={s.removed}>
              <span aria-hidden="true">−</span> {t.settings.sampleRemoved}
            </li>
            <li className={s.added}>
              <span aria-hidden="true">+</span> {t.settings.sampleAdded}
            </li>
          </ul>
        </div>
        <Switch
          label={t.settings.single}
          help={t.settings.singleHelp}
          checked={look.singleKeys}
          onChange={(singleKeys) => setLook({ singleKeys })}
        />
      </div>
    </Page>
  );
}
