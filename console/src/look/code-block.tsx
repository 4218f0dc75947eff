import type { ComponentProps } from 'react'

/** A code block. Long lines scroll, also by keyboard. */
export const CodeBlock = (props: ComponentProps<'pre'>) => (
  <pre
    {...props}
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable
    tabIndex={0}
    className="min-w-0 grow overflow-x-auto rounded-control bg-sunken p-3 font-mono text-code"
  />
)
