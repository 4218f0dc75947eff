import { DropdownMenu } from 'radix-ui'
import { type ReactNode, useRef } from 'react'
import { IconButton, Key } from './button.tsx'
import { classes } from './classes.ts'
import { Ellipsis, type Icon } from './icons.ts'

type MenuItem = {
  readonly label: string
  readonly icon?: Icon
  readonly onSelect: () => void
  readonly isDangerous?: boolean
  /** Keyboard shortcut on the row. */
  readonly hint?: string
}

type MenuProps = {
  readonly label: string
  readonly items: readonly (MenuItem | false)[]
  readonly trigger?: ReactNode
  readonly align?: 'start' | 'end'
}

export function Menu({ label, items, trigger, align = 'end' }: MenuProps) {
  const opener = useRef<HTMLButtonElement>(null)
  const isLeft = useRef(false)
  return (
    <DropdownMenu.Root
      modal={false}
      onOpenChange={() => {
        isLeft.current = false
      }}
    >
      <DropdownMenu.Trigger asChild ref={opener}>
        {trigger ?? <IconButton icon={Ellipsis} label={label} />}
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align={align}
          sideOffset={4}
          className="sheet z-50 min-w-44 py-1 shadow-float"
          aria-label={label}
          onInteractOutside={() => {
            isLeft.current = true
          }}
          // The browser would scroll the page to a button in the sticky navigation, although it is visible.
          onCloseAutoFocus={event => {
            event.preventDefault()
            if (!isLeft.current) opener.current?.focus({ preventScroll: true })
          }}
        >
          {items
            .filter(item => item !== false)
            .map(({ label: words, icon: Icon, onSelect, isDangerous, hint }) => (
              <DropdownMenu.Item
                key={words}
                onSelect={onSelect}
                className={classes(
                  'flex h-8 items-center gap-2 px-3 outline-none data-highlighted:bg-sunken pointer-coarse:h-11',
                  isDangerous && 'text-bad',
                )}
              >
                {Icon ? <Icon size={16} aria-hidden /> : null}
                {words}
                {hint ? (
                  <span className="ml-auto pl-3 text-ink-3 pointer-coarse:hidden" aria-hidden="true">
                    <Key>{hint}</Key>
                  </span>
                ) : null}
              </DropdownMenu.Item>
            ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}
