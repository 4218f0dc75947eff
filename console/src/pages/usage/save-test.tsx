import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call, type Input } from '../../api/client.ts'
import type { AnswerOf, UsageItem } from '../../api/contract.ts'
import { Button } from '../../look/button.tsx'
import { Choice, Field, TextArea, TextInput } from '../../look/field.tsx'
import { Save } from '../../look/icons.ts'
import { ErrorCard } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'

type Check = Input<'createTest'>['body']['check']
const KINDS = ['contains', 'equals', 'matches', 'schema', 'judge'] as const
type Kind = (typeof KINDS)[number]

/** Text that is not a JSON object is sent as it is, so that the gateway explains what is wrong. */
function schemaIn(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    // The gateway refuses a text.
    return text as unknown as Record<string, unknown>
  }
}

function checkOf(kind: Kind, value: string, model: string): Check {
  if (kind === 'schema') return { kind, schema: schemaIn(value) }
  if (kind === 'judge') return { kind, model, question: value }
  return { kind, value }
}

/** Saves a kept request as a test, with a check of its answer. */
export function SaveTest({ row }: { readonly row: UsageItem }) {
  const { t } = useTranslation()
  const [name, setName] = useState('')
  const [kind, setKind] = useState<Kind>('contains')
  const [value, setValue] = useState('')
  const [model, setModel] = useState('')
  // Not a mutation that refetches the page: reading the body again would be a second audit record.
  const save = useMutation<AnswerOf<'createTest'>, Error, Input<'createTest'>>({
    mutationFn: input => call('createTest', input),
    onSuccess: () => toast(t('tests.saved', { name })),
  })
  return (
    <details>
      <summary>{t('tests.save')}</summary>
      <form
        className="flex flex-col gap-3 pt-2"
        onSubmit={event => {
          event.preventDefault()
          save.mutate({ body: { request_id: row.request_id, name, check: checkOf(kind, value, model) } })
        }}
      >
        <Field label={t('tests.name')}>
          {wiring => (
            <TextInput {...wiring} value={name} required onChange={event => setName(event.target.value)} />
          )}
        </Field>
        <Field label={t('tests.check')}>
          {wiring => (
            <Choice {...wiring} value={kind} onChange={event => setKind(event.target.value as Kind)}>
              {KINDS.map(each => (
                <option key={each} value={each}>
                  {t(`tests.kinds.${each}`)}
                </option>
              ))}
            </Choice>
          )}
        </Field>
        {kind === 'judge' ? (
          <Field label={t('tests.judge_model')}>
            {wiring => (
              <TextInput
                {...wiring}
                value={model}
                required
                onChange={event => setModel(event.target.value)}
              />
            )}
          </Field>
        ) : null}
        <Field label={t(`tests.values.${kind}`)}>
          {wiring => (
            <TextArea
              {...wiring}
              rows={kind === 'schema' ? 6 : 2}
              value={value}
              required
              onChange={event => setValue(event.target.value)}
            />
          )}
        </Field>
        {save.error ? <ErrorCard error={save.error} /> : null}
        <Button type="submit" icon={Save} isBusy={save.isPending} className="self-start">
          {t('tests.save')}
        </Button>
      </form>
    </details>
  )
}
