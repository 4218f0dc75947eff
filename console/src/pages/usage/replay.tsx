import { useMutation } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call, type Input } from '../../api/client.ts'
import type { AnswerOf, UsageItem } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { CodeBlock } from '../../look/code-block.tsx'
import { Choice, Field, TextInput } from '../../look/field.tsx'
import { count, moneyOfOne, span } from '../../look/format.ts'
import { Repeat } from '../../look/icons.ts'
import { Facts } from '../../look/panel.tsx'
import { ErrorCard } from '../../look/states.tsx'
import { readable } from './readable.ts'

type Replayed = AnswerOf<'replay'>

function Column({ title, answer }: { readonly title: string; readonly answer: Replayed['original'] }) {
  const { t } = useTranslation()
  return (
    <div className="flex min-w-0 flex-1 basis-60 flex-col gap-2">
      <h4 className="font-medium">{title}</h4>
      <Facts
        facts={[
          [t('usage.model'), answer.model],
          [t('bodies.status'), String(answer.status)],
          [t('usage.line.input'), count(answer.prompt_tokens)],
          [t('usage.line.output'), count(answer.completion_tokens)],
          [t('usage.cost'), moneyOfOne(answer.cost)],
          [t('usage.ttft'), span(answer.first_ms ?? undefined)],
          [t('usage.latency'), span(answer.ms)],
        ]}
      />
      <div className="max-h-96 overflow-y-auto">
        <CodeBlock className="whitespace-pre-wrap">{readable(answer.answer)}</CodeBlock>
      </div>
    </div>
  )
}

type DestinationFieldsProps = {
  readonly model: string
  readonly channel: string
  readonly onModel: (model: string) => void
  readonly onChannel: (channel: string) => void
}

/** The model, and for administrators the channel, that requests are sent to. */
export function DestinationFields({ model, channel, onModel, onChannel }: DestinationFieldsProps) {
  const { t } = useTranslation()
  const list = useId()
  const isAdmin = useIsAdmin()
  const models = useCall('listUsableModels', {}, { staleMs: 60_000 })
  const channels = useCall(
    'listChannels',
    { query: { page_size: 500 } },
    { enabled: isAdmin, staleMs: 60_000 },
  )
  return (
    <>
      <Field label={t('usage.model')} className="grow">
        {wiring => (
          <>
            <TextInput
              {...wiring}
              list={list}
              value={model}
              placeholder={t('bodies.same_model')}
              onChange={event => onModel(event.target.value)}
            />
            <datalist id={list}>
              {models.data?.map(name => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      {isAdmin ? (
        <Field label={t('usage.channel')} className="grow">
          {wiring => (
            <Choice {...wiring} value={channel} onChange={event => onChannel(event.target.value)}>
              <option value="">{t('bodies.any_channel')}</option>
              {channels.data?.items
                .flatMap(item => ('id' in item ? [item] : []))
                .map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name} #{id}
                  </option>
                ))}
            </Choice>
          )}
        </Field>
      ) : null}
    </>
  )
}

/** The destination as the API expects it. */
export const destinationOf = (model: string, channel: string) => ({
  ...(model.trim() === '' ? {} : { model: model.trim() }),
  ...(channel === '' ? {} : { channel_id: Number(channel) }),
})

/** Sends a kept request again, and shows both answers side by side. */
export function Replay({ row }: { readonly row: UsageItem }) {
  const { t } = useTranslation()
  const [model, setModel] = useState('')
  const [channel, setChannel] = useState('')
  const replay = useMutation<Replayed, Error, Input<'replay'>>({ mutationFn: input => call('replay', input) })
  return (
    <div className="flex flex-col gap-3 border-t border-line pt-3">
      <form
        className="flex flex-wrap items-end gap-2"
        onSubmit={event => {
          event.preventDefault()
          replay.mutate({ body: { request_id: row.request_id, ...destinationOf(model, channel) } })
        }}
      >
        <DestinationFields model={model} channel={channel} onModel={setModel} onChannel={setChannel} />
        <Button type="submit" icon={Repeat} isBusy={replay.isPending}>
          {t('bodies.replay')}
        </Button>
      </form>
      <p className="text-label text-ink-3">{t('bodies.replay_help')}</p>
      {replay.error ? <ErrorCard error={replay.error} /> : null}
      {replay.data ? (
        <div className="flex flex-wrap gap-4">
          <Column title={t('bodies.original')} answer={replay.data.original} />
          <Column title={t('bodies.replayed')} answer={replay.data} />
        </div>
      ) : null}
    </div>
  )
}
