import { classes } from './classes.ts'

/** The product's logo: a sluice gate between two posts. */
export const Logo = ({ size, className }: { readonly size: number; readonly className?: string }) => (
  <svg
    width={size}
    height={size}
    viewBox="0 0 24 24"
    aria-hidden="true"
    className={classes('text-accent', className)}
  >
    <path
      d="M5 2v20M19 2v20M5 8h14v6H5z"
      fill="none"
      stroke="currentColor"
      strokeWidth="2.5"
      strokeLinejoin="round"
    />
  </svg>
)
