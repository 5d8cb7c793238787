import { useEffect } from 'react';
import { useInboxStream } from '../inbox/live';
import { useNeeds } from './attention';
import icon from './icon.svg';
import needsIcon from './icon-needs.svg';

/** Listens to the inbox on every page; the icon of the tab has another shape while something needs the person. */
export function Watch() {
  useInboxStream();
  const needs = useNeeds() > 0;
  useEffect(() => {
    document.getElementById('icon')?.setAttribute('href', needs ? needsIcon : icon);
  }, [needs]);
  return null;
}
