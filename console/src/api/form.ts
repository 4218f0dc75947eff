import { type BaseSyntheticEvent, useRef } from 'react'
import { type DefaultValues, type FieldValues, type Path, type UseFormReturn, useForm } from 'react-hook-form'
import type { z } from 'zod'
import { useErrorText } from '../look/states.tsx'
import { useGatewayText } from '../texts/gateway-text.tsx'
import type { Input } from './client.ts'
import type { AnswerOf, RouteName } from './contract.ts'
import { ApiError } from './errors.ts'
import { useRouteMutation } from './query.ts'
import { useRetryKey } from './retry-key.ts'

/**
 * Validates a body with the gateway's schema before it is sent, so that field errors show without a round trip.
 */
export async function validateBody(route: RouteName, body: unknown): Promise<void> {
  const [{ contract }, { faultMessage }] = await Promise.all([
    import('../../../src/manage/contract/index.ts'),
    import('../../../src/manage/contract/fault-messages.ts'),
  ])
  const { body: schema } = contract[route] as { body?: z.ZodType }
  const judged = schema?.safeParse(body, { error: faultMessage })
  if (!judged || judged.success) return
  const errors = judged.error.issues.map(({ path, message }) => ({ path: path.join('.'), message }))
  const message = errors.map(fault => `${fault.path} ${fault.message}`).join('; ')
  throw new ApiError({ status: 400, code: 'invalid_request', message, errors })
}

type SavingOptions<Values extends FieldValues> = {
  readonly defaults: DefaultValues<Values>
  readonly save: (values: Values) => Promise<void>
  /** Maps a field of the body to the form field with another name. */
  readonly names?: Readonly<Record<string, Path<Values>>>
}

/**
 * A form that shows validation errors, local or from the gateway, at their fields and focuses the first one.
 */
export function useSavingForm<Values extends FieldValues>({
  defaults,
  save,
  names = {},
}: SavingOptions<Values>) {
  const form = useForm<Values>({ defaultValues: defaults })
  const errorText = useErrorText()
  const gatewayText = useGatewayText()

  function showErrors(error: unknown): void {
    const values = form.getValues()
    let isShown = false
    for (const { path, message } of error instanceof ApiError ? error.errors : []) {
      const field = path.replace(/^channel\./, '').split('.')[0] ?? ''
      const name = names[path] ?? names[field] ?? (field in values ? (field as Path<Values>) : undefined)
      if (name === undefined) continue
      form.setError(name, { message: gatewayText(message) }, { shouldFocus: !isShown })
      isShown = true
    }
    if (!isShown) form.setError('root.server', { message: errorText(error) })
  }

  const isSaving = useRef(false)
  /** A shortcut and Enter submit also while the button is disabled. */
  async function submit(event?: BaseSyntheticEvent): Promise<void> {
    event?.preventDefault()
    if (isSaving.current) return
    isSaving.current = true
    try {
      await form.handleSubmit(values => save(values).catch(showErrors))(event)
    } finally {
      isSaving.current = false
    }
  }

  const { errors, isSubmitting } = form.formState
  return {
    form,
    submit,
    errorOf: (name: Path<Values>) => form.getFieldState(name, form.formState).error?.message,
    isBusy: isSubmitting,
    fault: errors.root?.server?.message,
  }
}

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)

/** Only changed fields are sent, so that changes of other fields made elsewhere, or by requests, survive. */
export const changedFields = <Body extends object>(body: Body, before: Body): Partial<Body> =>
  Object.fromEntries(
    Object.entries(body).filter(([name, value]) => !isSame(value, before[name as keyof Body])),
  ) as Partial<Body>

/** After a save: sets every field to `next`, except those that were edited while these values were saved. */
export function resetToSaved<Values extends FieldValues>(
  form: UseFormReturn<Values>,
  saved: Values,
  next: Values = saved,
): void {
  const now = form.getValues()
  form.reset(next)
  for (const name of Object.keys(now) as Path<Values>[])
    if (!isSame(now[name], saved[name])) form.setValue(name, now[name], { shouldDirty: true })
}

type ContractFormOptions<Name extends RouteName, Values extends FieldValues> = Omit<
  SavingOptions<Values>,
  'save'
> & {
  readonly route: Name
  readonly toInput: (values: Values) => Input<Name>
  readonly onDone: (answer: AnswerOf<Name>, values: Values) => void
  /** Saving the same values again after a lost response does not make the change twice. */
  readonly isOnce?: boolean
}

/** A form that submits to one route of the contract. */
export function useContractForm<Name extends RouteName, Values extends FieldValues>({
  route,
  toInput,
  onDone,
  isOnce = false,
  ...options
}: ContractFormOptions<Name, Values>) {
  const retryKey = useRetryKey()
  const act = useRouteMutation(route, input => (isOnce ? { idempotencyKey: retryKey.keyOf(input) } : {}))
  return useSavingForm<Values>({
    ...options,
    save: async values => {
      const input = toInput(values)
      await validateBody(route, (input as { body?: unknown }).body)
      const answer = await act.mutateAsync(input)
      retryKey.forget()
      onDone(answer, values)
    },
  })
}
