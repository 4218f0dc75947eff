import type { ComponentProps } from 'react'
import { classes } from './classes.ts'

/** A code block. Long lines scroll, also by keyboard. */
export const CodeBlock = ({ className, ...rest }: ComponentProps<'pre'>) => (
  <pre
    {...rest}
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable
    tabIndex={0}
    className={classes(
      'min-w-0 grow overflow-x-auto rounded-control bg-sunken p-3 font-mono text-code',
      className,
    )}
  />
)
