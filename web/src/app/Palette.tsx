import { Dialog } from '../ui/Dialog';
import { t } from './strings';

export const Palette = ({ onClose }: { onClose: () => void }) => (
  <Dialog open onClose={onClose} title={t.commands} bare>
    {t.commands}
  </Dialog>
);
