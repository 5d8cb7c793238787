import { type ReactNode, useState } from 'react';
import { Page } from '../app/Page';
import { t } from '../app/strings';
import { Tabs } from '../ui/Tabs';
import { Basics } from './Basics';
import s from './Gallery.module.css';
import { Overlays } from './Overlays';
import { Work } from './Work';

/** All parts in all their states, for eyes and for tests. No way leads here. */
export function GalleryPage() {
  const [tab, setTab] = useState<'basics' | 'work' | 'overlays'>('basics');
  const panel = (content: ReactNode) => <div className={s.gallery}>{content}</div>;
  return (
    <Page title={t.pages.gallery}>
      <div className={s.page}>
        <Tabs
          label={t.pages.gallery}
          value={tab}
          onChange={setTab}
          tabs={[
            { value: 'basics', label: 'Basics', content: panel(<Basics />) },
            { value: 'work', label: 'Work', content: panel(<Work />) },
            { value: 'overlays', label: 'Overlays', content: panel(<Overlays />) },
          ]}
        />
      </div>
    </Page>
  );
}
