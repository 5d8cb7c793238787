import type { VirtualItem } from '@tanstack/react-virtual';
import type { Saved } from '../data/scroll';
import type { Shelf } from '../data/shelf';
import { fields, num, str } from '../data/wire';
import type { Density, Folds, Kept } from './folds';

// Where a person stood in a session: exactly while the tab lives, by its line after a reload.

export interface Place {
  saved: Saved;
  top: number;
  sizes: VirtualItem[];
}

const places = new Map<string, Place>();

export function placeOf(session: string, shelf: Shelf): Partial<Place> {
  const here = places.get(session);
  if (here) return here;
  const kept = fields(shelf.get(`place.${session}`));
  const anchor = fields(kept.anchor);
  if (!str(anchor, 'key')) return {};
  return {
    saved: { anchor: { key: str(anchor, 'key'), offset: num(anchor, 'offset') }, following: kept.following === true },
  };
}

export function keepPlace(session: string, shelf: Shelf, place: Place): void {
  places.delete(session);
  places.set(session, place);
  const oldest = places.keys().next();
  if (places.size > 20 && !oldest.done) places.delete(oldest.value);
  shelf.set(`place.${session}`, { anchor: place.saved.anchor ?? null, following: place.saved.following });
}

const allFolds = new Map<string, Folds>();

export function foldsOf(session: string, shelf: Shelf, make: () => Folds): Folds {
  let folds = allFolds.get(session);
  if (folds) return folds;
  folds = make();
  const density = shelf.get('density');
  if (density === 'closed' || density === 'open') folds.setDensity(density as Density);
  const kept = fields(shelf.get(`folds.${session}`));
  const turns = fields(kept.turns) as Kept['turns'];
  folds.load({ turns, groups: Array.isArray(kept.groups) ? (kept.groups as string[]) : [] });
  const mine = folds;
  mine.topics.on('folds', () => {
    shelf.set(`folds.${session}`, mine.save());
    shelf.set('density', mine.density);
  });
  allFolds.set(session, folds);
  return folds;
}
