import { type ComponentProps, type KeyboardEvent, useId, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { classes } from './classes.ts'
import { ChevronsUpDown } from './icons.ts'

/** So many options are shown; typing narrows them. */
const MAX_SHOWN = 100

type ComboboxProps = Omit<ComponentProps<'input'>, 'value' | 'onChange' | 'list'> & {
  readonly value: string
  readonly options: readonly string[]
  readonly onChange: (value: string) => void
}

/** The options that contain the text; all of them while the text is one of them, so that another can be chosen. */
function matching(options: readonly string[], text: string): readonly string[] {
  const part = text.trim().toLowerCase()
  const matches = options.includes(text) ? options : options.filter(each => each.toLowerCase().includes(part))
  return matches.slice(0, MAX_SHOWN)
}

/** A text field with a list of options to choose from. Any other text can be typed. */
export function Combobox({ value, options, onChange, className, ...rest }: ComboboxProps) {
  const { t } = useTranslation()
  const listId = useId()
  const input = useRef<HTMLInputElement>(null)
  const [isOpen, setOpen] = useState(false)
  const [active, setActive] = useState(-1)
  const shown = isOpen ? matching(options, value) : []
  const optionId = (index: number) => `${listId}-${index}`

  const open = () => {
    setOpen(true)
    setActive(matching(options, value).indexOf(value))
  }
  const choose = (option: string) => {
    onChange(option)
    setOpen(false)
    input.current?.focus()
  }
  const move = (to: number) => {
    if (!isOpen) return open()
    const index = Math.max(0, Math.min(shown.length - 1, to))
    setActive(index)
    document.getElementById(optionId(index))?.scrollIntoView({ block: 'nearest' })
  }
  const steps: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(active + 1),
    ArrowUp: () => move(active - 1),
  }
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.nativeEvent.isComposing) return
    const step = steps[event.key]
    const option = shown[active]
    if (step) step()
    else if (event.key === 'Enter' && isOpen && option !== undefined) choose(option)
    else if (event.key === 'Escape' && isOpen) setOpen(false)
    else return
    event.preventDefault()
    event.stopPropagation()
  }

  return (
    <div className="relative">
      <input
        type="text"
        {...rest}
        ref={input}
        role="combobox"
        aria-expanded={isOpen && shown.length > 0}
        aria-controls={listId}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && active >= 0 ? optionId(active) : undefined}
        autoComplete="off"
        spellCheck={false}
        value={value}
        title={value}
        onChange={event => {
          onChange(event.target.value)
          setOpen(true)
          setActive(-1)
        }}
        onClick={open}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
        className={classes('control w-full pr-9 text-ellipsis aria-invalid:border-bad', className)}
      />
      <button
        type="button"
        tabIndex={-1}
        aria-label={t('common.show_options')}
        // Keeps the focus in the field, so that its blur does not close the list first.
        onMouseDown={event => event.preventDefault()}
        onClick={() => {
          input.current?.focus()
          if (isOpen) setOpen(false)
          else open()
        }}
        className="absolute inset-y-px right-px grid w-8 place-items-center rounded-control text-ink-3 hover:text-ink pointer-coarse:w-11"
      >
        <ChevronsUpDown size={16} aria-hidden />
      </button>
      <div
        id={listId}
        role="listbox"
        aria-label={rest['aria-label'] ?? t('common.options')}
        hidden={shown.length === 0}
        className="sheet absolute top-full right-0 left-0 z-20 mt-1 max-h-72 overflow-y-auto py-1 shadow-float"
      >
        {shown.map((option, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus and handles the keys
          <div
            key={option}
            id={optionId(index)}
            role="option"
            tabIndex={-1}
            aria-selected={option === value}
            onMouseDown={event => event.preventDefault()}
            onClick={() => choose(option)}
            className={classes(
              'cursor-pointer px-2.5 py-1 font-mono text-code break-all pointer-coarse:py-2.5',
              index === active ? 'bg-accent-soft' : 'hover:bg-sunken',
              option === value && 'font-semibold',
            )}
          >
            {option}
          </div>
        ))}
      </div>
    </div>
  )
}
