import { MoreHorizontal, RotateCw, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { Button, IconButton } from '../ui/Button';
import { Combobox } from '../ui/Combobox';
import { Dialog, Sheet } from '../ui/Dialog';
import { Input } from '../ui/Field';
import { Menu, Popover, Tooltip } from '../ui/Overlay';
import s from './Gallery.module.css';
import { Part } from './Part';

const options = Array.from({ length: 40 }, (_, i) => ({ value: `v${i}`, label: `model-${i}`, detail: `${i} USD` }));

export function Overlays() {
  const [open, setOpen] = useState<'' | 'dialog' | 'end' | 'bottom'>('');
  const [model, setModel] = useState('v3');
  const close = () => setOpen('');
  return (
    <>
      <Part name="Menu">
        <Menu
          trigger={<IconButton icon={MoreHorizontal} label="More" />}
          items={[
            { label: 'Run again', icon: RotateCw, run: () => {} },
            { label: 'Cannot be done now', run: () => {}, disabled: true },
            { label: 'Delete', icon: Trash2, run: () => {}, danger: true },
          ]}
        />
      </Part>
      <Part name="Popover">
        <Popover trigger={<Button>Popover</Button>} label="About the snapshot">
          The snapshot is of this morning.
        </Popover>
      </Part>
      <Part name="Tooltip">
        <Tooltip text="More about what is already named">
          <Button>Tooltip</Button>
        </Tooltip>
      </Part>
      <Part name="Combobox">
        <div className={s.field}>
          <Combobox label="Model" options={options} value={model} onChange={setModel} placeholder="Choose" />
        </div>
      </Part>
      <Part name="Dialog and Sheet">
        <Button onClick={() => setOpen('dialog')}>Dialog</Button>
        <Button onClick={() => setOpen('end')}>Sheet at the side</Button>
        <Button onClick={() => setOpen('bottom')}>Sheet below</Button>
      </Part>
      <Dialog
        open={open === 'dialog'}
        onClose={close}
        title="Deny the request"
        foot={
          <>
            <Button onClick={close}>Cancel</Button>
            <Button kind="danger" onClick={close}>
              Deny
            </Button>
          </>
        }
      >
        <Input label="Reason" />
      </Dialog>
      <Sheet
        open={open === 'end' || open === 'bottom'}
        side={open === 'bottom' ? 'bottom' : 'end'}
        onClose={close}
        title="Details"
      >
        What stands beside the page on a wide screen.
      </Sheet>
    </>
  );
}
