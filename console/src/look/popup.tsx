import { Popover } from 'radix-ui'
import type { ReactNode } from 'react'

type PopupProps = {
  readonly label: string
  readonly trigger: ReactNode
  readonly children: ReactNode
  readonly isOpen?: boolean
  readonly onOpenChange?: (isOpen: boolean) => void
}

/** A popover next to its button. A click elsewhere or Escape closes it. */
export const Popup = ({ label, trigger, children, isOpen, onOpenChange }: PopupProps) => (
  <Popover.Root
    {...(isOpen === undefined ? {} : { open: isOpen })}
    {...(onOpenChange === undefined ? {} : { onOpenChange })}
  >
    <Popover.Trigger asChild>{trigger}</Popover.Trigger>
    <Popover.Portal>
      <Popover.Content
        align="start"
        sideOffset={4}
        collisionPadding={8}
        aria-label={label}
        className="sheet z-50 flex w-72 max-w-[calc(100vw-16px)] flex-col shadow-float"
      >
        {children}
      </Popover.Content>
    </Popover.Portal>
  </Popover.Root>
)
