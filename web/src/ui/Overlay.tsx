import { Menu as BaseMenu } from '@base-ui/react/menu';
import { Popover as BasePopover } from '@base-ui/react/popover';
import { Tooltip as BaseTooltip } from '@base-ui/react/tooltip';
import type { LucideIcon } from 'lucide-react';
import type { ReactElement, ReactNode } from 'react';
import { cx } from './cx';
import s from './Overlay.module.css';

export interface MenuItem {
  label: string;
  icon?: LucideIcon;
  run: () => void;
  danger?: boolean;
  disabled?: boolean;
}

export function Menu({ trigger, items }: { trigger: ReactElement; items: MenuItem[] }) {
  return (
    <BaseMenu.Root>
      <BaseMenu.Trigger render={trigger} />
      <BaseMenu.Portal>
        <BaseMenu.Positioner className={s.positioner} sideOffset={4} align="end">
          <BaseMenu.Popup className={cx(s.popup, s.menu)}>
            {items.map(({ icon: Icon, ...item }) => (
              <BaseMenu.Item
                key={item.label}
                className={cx(s.item, item.danger && s.danger)}
                disabled={item.disabled ?? false}
                onClick={item.run}
              >
                {Icon && <Icon size={16} aria-hidden="true" />}
                {item.label}
              </BaseMenu.Item>
            ))}
          </BaseMenu.Popup>
        </BaseMenu.Positioner>
      </BaseMenu.Portal>
    </BaseMenu.Root>
  );
}

export function Popover({ trigger, label, children }: { trigger: ReactElement; label: string; children: ReactNode }) {
  return (
    <BasePopover.Root>
      <BasePopover.Trigger render={trigger} />
      <BasePopover.Portal>
        <BasePopover.Positioner className={s.positioner} sideOffset={4}>
          <BasePopover.Popup className={cx(s.popup, s.popover)} aria-label={label}>
            {children}
          </BasePopover.Popup>
        </BasePopover.Positioner>
      </BasePopover.Portal>
    </BasePopover.Root>
  );
}

/** More about what is already named; never the only place of anything. */
export function Tooltip({ text, children }: { text: ReactNode; children: ReactElement }) {
  return (
    <BaseTooltip.Root>
      <BaseTooltip.Trigger render={children} />
      <BaseTooltip.Portal>
        <BaseTooltip.Positioner className={s.positioner} sideOffset={6}>
          <BaseTooltip.Popup className={cx(s.popup, s.tip)}>{text}</BaseTooltip.Popup>
        </BaseTooltip.Positioner>
      </BaseTooltip.Portal>
    </BaseTooltip.Root>
  );
}
