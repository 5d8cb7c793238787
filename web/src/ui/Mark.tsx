/** The sign of Drydock, beside its name. */
export const Mark = ({ size = 20 }: { size?: number }) => (
  <svg viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
    <rect width="32" height="32" rx="7" fill="#1d5bb8" />
    <path
      d="M6 11v9a5 5 0 0 0 5 5h10a5 5 0 0 0 5-5v-9"
      fill="none"
      stroke="#fff"
      strokeWidth="3"
      strokeLinecap="round"
    />
    <path d="M11 16h10l-2 4h-6z" fill="#fff" />
    <path d="M16 16V7" stroke="#fff" strokeWidth="2.5" strokeLinecap="round" />
  </svg>
);
