import { Switch as RadixSwitch } from 'radix-ui'
import { type ComponentProps, type ReactNode, useId } from 'react'
import { classes } from './classes.ts'

type Wiring = {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': boolean | undefined
}

type FieldProps = {
  /** The hash of links to this field (`useLinkedField`). */
  readonly name?: string
  readonly label: ReactNode
  readonly help?: ReactNode
  readonly error?: string | undefined
  readonly className?: string
  readonly children: (wiring: Wiring) => ReactNode
}

/** A labelled control with its help text and its error. */
export function Field({ name, label, help, error, className, children }: FieldProps) {
  const id = useId()
  const described = error || help ? `${id}-said` : undefined
  return (
    <div data-field={name} className={classes('flex flex-col gap-1', className)}>
      <label htmlFor={id} className="text-label font-medium text-ink-2">
        {label}
      </label>
      {children({ id, 'aria-describedby': described, 'aria-invalid': error ? true : undefined })}
      {described ? (
        <div id={described} className="flex flex-col gap-1 text-label">
          {error ? (
            <p role="alert" className="text-bad">
              {error}
            </p>
          ) : null}
          {help ? <div className="text-ink-3">{help}</div> : null}
        </div>
      ) : null}
    </div>
  )
}

export const TextInput = ({ className, ...rest }: ComponentProps<'input'>) => (
  <input type="text" {...rest} className={classes('control w-full aria-invalid:border-bad', className)} />
)

/** A non-negative decimal number, such as an amount or a factor. */
export const AmountInput = (props: ComponentProps<'input'>) => (
  <TextInput {...props} type="number" min={0} step="any" />
)

export const TextArea = ({ className, ...rest }: ComponentProps<'textarea'>) => (
  <textarea
    {...rest}
    className={classes(
      'w-full rounded-control border border-edge bg-sheet px-2.5 py-1.5 text-ink aria-invalid:border-bad pointer-coarse:text-[16px]',
      className,
    )}
  />
)

export const Choice = ({ className, ...rest }: ComponentProps<'select'>) => (
  <select {...rest} className={classes('control max-w-full pr-2', className)} />
)

type SwitchProps = {
  readonly label: string
  readonly isOn: boolean
  readonly onChange: (isOn: boolean) => void
  readonly disabled?: boolean
  readonly isLabelHidden?: boolean
}

export function Switch({ label, isOn, onChange, disabled = false, isLabelHidden = false }: SwitchProps) {
  const id = useId()
  return (
    <span className="inline-flex items-center gap-2">
      <RadixSwitch.Root
        id={id}
        checked={isOn}
        onCheckedChange={onChange}
        disabled={disabled}
        aria-label={isLabelHidden ? label : undefined}
        className="relative h-6 w-10 shrink-0 rounded-full border border-edge bg-sunken disabled:opacity-50 data-[state=checked]:border-accent data-[state=checked]:bg-accent"
      >
        <RadixSwitch.Thumb className="block size-4 translate-x-[3px] rounded-full bg-ink-2 transition-transform duration-120 data-[state=checked]:translate-x-[19px] data-[state=checked]:bg-on-accent" />
      </RadixSwitch.Root>
      {isLabelHidden ? null : (
        <label htmlFor={id} className="text-body">
          {label}
        </label>
      )}
    </span>
  )
}

type RadiosProps<Value extends string> = {
  /** The hash of links to this field (`useLinkedField`). */
  readonly field?: string
  readonly legend: string
  readonly value: Value
  readonly options: readonly { readonly value: Value; readonly label: string; readonly help?: string }[]
  readonly onChange: (value: Value) => void
}

export function Radios<Value extends string>({
  field,
  legend,
  value,
  options,
  onChange,
}: RadiosProps<Value>) {
  const name = useId()
  return (
    <fieldset data-field={field} className="flex flex-col gap-1.5">
      <legend className="mb-1 text-label font-medium text-ink-2">{legend}</legend>
      {options.map(option => (
        <label key={option.value} className="flex items-start gap-2">
          <input
            type="radio"
            name={name}
            checked={value === option.value}
            onChange={() => onChange(option.value)}
            className="mt-0.5 size-4 accent-accent"
          />
          <span>
            {option.label}
            {option.help ? <span className="block text-label text-ink-3">{option.help}</span> : null}
          </span>
        </label>
      ))}
    </fieldset>
  )
}

export const Checkbox = ({ label, ...rest }: ComponentProps<'input'> & { readonly label: ReactNode }) => (
  <label className="inline-flex min-h-6 items-center gap-2">
    <input type="checkbox" {...rest} className="size-4 shrink-0 accent-accent" />
    <span>{label}</span>
  </label>
)
