/** Joins the names of classes that are wanted. */
export const cx = (...names: (string | false | null | undefined)[]): string => names.filter(Boolean).join(' ');
