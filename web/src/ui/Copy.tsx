import { Check, Copy as CopyIcon } from 'lucide-react';
import { useEffect, useState } from 'react';
import { announce } from '../app/announcer';
import { t } from '../app/strings';
import { Button } from './Button';

/** Copies a text and says so in place. */
export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <Button
      size="small"
      kind="quiet"
      icon={done ? Check : CopyIcon}
      onClick={async () => {
        try {
          await navigator.clipboard.writeText(text);
          setDone(true);
          announce(t.copied);
        } catch {
          // Without the right to write, the text stands where it can be marked.
        }
      }}
    >
      {done ? t.copied : label}
    </Button>
  );
}
