import { X } from 'lucide-react';
import { type ReactNode, useEffect, useId, useRef } from 'react';
import { t } from '../app/strings';
import { IconButton } from './Button';
import { cx } from './cx';
import s from './Dialog.module.css';

interface Props {
  open: boolean;
  onClose: () => void;
  title: string;
  /** The title is for those who cannot see; the content says it by itself. */
  bare?: boolean;
  wide?: boolean;
  /** Asks something that an outside click may not answer. */
  firm?: boolean;
  children: ReactNode;
  foot?: ReactNode;
}

// The browser's own dialog: focus stays inside and goes back, Escape closes, what is behind is inert.
function Modal({
  open,
  onClose,
  title,
  bare,
  firm,
  children,
  foot,
  className,
}: Props & { className: string | undefined }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  return (
    <dialog
      ref={ref}
      className={cx(s.dialog, className)}
      aria-labelledby={bare ? undefined : id}
      aria-label={bare ? title : undefined}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onClose={() => open && onClose()}
      onKeyDown={(e) => e.stopPropagation()}
      onClick={(e) => {
        if (!firm && e.target === ref.current) onClose();
      }}
    >
      {open && (
        <div className={s.inner}>
          {!bare && (
            <div className={s.head}>
              <h2 id={id} className={s.title}>
                {title}
              </h2>
              <IconButton icon={X} label={t.close} onClick={onClose} />
            </div>
          )}
          <div className={bare ? s.bare : s.body}>{children}</div>
          {foot && <div className={s.foot}>{foot}</div>}
        </div>
      )}
    </dialog>
  );
}

export const Dialog = (props: Props) => <Modal {...props} className={cx(s.centre, props.wide && s.wide)} />;

/** A dialog at an edge, for what is beside the page on a wide screen. */
export const Sheet = ({ side = 'end', ...props }: Props & { side?: 'start' | 'end' | 'bottom' }) => (
  <Modal {...props} className={cx(s.sheet, s[side])} />
);
