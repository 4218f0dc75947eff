import type { ComponentProps } from 'react'

/** Code as it is to be copied; long lines scroll sideways, by keyboard too. */
export const CodeBlock = (props: ComponentProps<'pre'>) => (
  <pre
    {...props}
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable
    tabIndex={0}
    className="min-w-0 grow overflow-x-auto rounded-control bg-sunken p-3 font-mono text-code"
  />
)
