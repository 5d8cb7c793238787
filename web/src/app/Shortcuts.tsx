import { Dialog } from '../ui/Dialog';
import { Key } from '../ui/Key';
import { useLook } from './look';
import s from './Shortcuts.module.css';
import { t } from './strings';
import { useBindings } from './useKeys';

/** The keys that hold on what is on the screen now. */
export function Shortcuts({ onClose }: { onClose: () => void }) {
  const bindings = useBindings().filter((b) => !b.hidden);
  const { singleKeys } = useLook();
  const groups = [...new Set(bindings.map((b) => b.group))];
  return (
    <Dialog open onClose={onClose} title={t.keys.title}>
      {!singleKeys && <p className={s.off}>{t.keys.off}</p>}
      {groups.map((group) => (
        <section key={group} className={s.group}>
          <h3 className={s.heading}>{group}</h3>
          <dl className={s.list}>
            {bindings
              .filter((b) => b.group === group)
              .map((b) => (
                <div key={b.keys} className={s.row}>
                  <dt>{b.label}</dt>
                  <dd>
                    <Key keys={b.keys} />
                  </dd>
                </div>
              ))}
          </dl>
        </section>
      ))}
    </Dialog>
  );
}
