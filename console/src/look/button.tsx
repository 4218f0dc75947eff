import type { ComponentProps } from 'react'
import { classes } from './classes.ts'
import { type Icon, LoaderCircle } from './icons.ts'

const KINDS = {
  primary: 'bg-accent text-on-accent border-accent hover:opacity-90',
  plain: 'bg-sheet text-ink border-edge hover:bg-sunken',
  quiet: 'bg-transparent text-ink-2 border-transparent hover:bg-sunken hover:text-ink',
  danger: 'bg-bad text-sheet border-bad hover:opacity-90',
} as const

type ButtonProps = ComponentProps<'button'> & {
  readonly kind?: keyof typeof KINDS
  readonly icon?: Icon
  readonly isBusy?: boolean
  readonly isSmall?: boolean
  /** Keyboard shortcut, shown after the label. */
  readonly hint?: string
}

export const buttonClasses = (kind: keyof typeof KINDS, isSmall = false) =>
  classes(
    'inline-flex items-center justify-center gap-2 rounded-control border font-medium whitespace-nowrap no-underline select-none disabled:opacity-50',
    isSmall
      ? 'h-7 px-2 text-table pointer-coarse:h-10 pointer-coarse:px-3'
      : 'h-8 px-3 text-body pointer-coarse:h-10',
    KINDS[kind],
  )

export function Button({
  kind = 'plain',
  icon: Icon,
  isBusy = false,
  isSmall = false,
  hint,
  children,
  className,
  disabled,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || isBusy}
      aria-busy={isBusy || undefined}
      className={classes(buttonClasses(kind, isSmall), className)}
    >
      {isBusy ? <LoaderCircle size={16} className="animate-spin" aria-hidden /> : null}
      {!isBusy && Icon ? <Icon size={16} aria-hidden /> : null}
      {children}
      {hint ? (
        <span className="hidden lg:inline" aria-hidden="true">
          <Key>{hint}</Key>
        </span>
      ) : null}
    </button>
  )
}

type IconButtonProps = ComponentProps<'button'> & { readonly label: string; readonly icon: Icon }

export function IconButton({ label, icon: Icon, className, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      aria-label={label}
      title={label}
      className={classes(
        'inline-flex size-8 items-center justify-center rounded-control text-ink-2 hover:bg-sunken hover:text-ink disabled:opacity-50 pointer-coarse:size-11',
        className,
      )}
    >
      <Icon size={16} aria-hidden />
    </button>
  )
}

export function Key({ children }: { readonly children: string }) {
  return (
    <kbd className="rounded-control border border-current px-1 font-mono text-label leading-4 opacity-80">
      {children}
    </kbd>
  )
}
