import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import type { Channel } from '../../api/contract.ts'
import { mapConcurrently } from '../../api/map-concurrently.ts'
import { useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { Checkbox, TextInput } from '../../look/field.tsx'
import { Circle, CircleCheck, CircleX, LoaderCircle } from '../../look/icons.ts'
import { useErrorText } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { type TestOutcome, TestResultText } from './channel-test.tsx'

type State = 'running' | TestOutcome

function StateIcon({ state }: { readonly state: State | undefined }) {
  if (state === undefined) return <Circle size={16} className="shrink-0 text-ink-3" aria-hidden />
  if (state === 'running')
    return <LoaderCircle size={16} className="shrink-0 animate-spin text-ink-3" aria-hidden />
  return state.success ? (
    <CircleCheck size={16} className="shrink-0 text-ok" aria-hidden />
  ) : (
    <CircleX size={16} className="shrink-0 text-bad" aria-hidden />
  )
}

/** Tests all models of a channel until the user stops it. Failed models can be removed. */
export function TestModels({
  channel,
  onClose,
}: {
  readonly channel: Channel
  readonly onClose: () => void
}) {
  const { t } = useTranslation()
  const words = useErrorText()
  const update = useRouteMutation('updateChannel')
  const [text, setText] = useState('')
  const [isStream, setStream] = useState(false)
  const [states, setStates] = useState<ReadonlyMap<string, State>>(new Map())
  const [isRunning, setRunning] = useState(false)
  const [isRemoving, setRemoving] = useState(false)
  const stopping = useRef(new AbortController())
  useEffect(() => () => stopping.current.abort(), [])
  const matches = channel.models.filter(model => model.toLowerCase().includes(text.toLowerCase()))
  const failed = channel.models.filter(model => {
    const state = states.get(model)
    return state !== undefined && state !== 'running' && !state.success
  })
  const set = (model: string, state: State | undefined) =>
    setStates(before => {
      const after = new Map(before)
      if (state === undefined) after.delete(model)
      else after.set(model, state)
      return after
    })

  const test = async (model: string, signal: AbortSignal) => {
    if (signal.aborted) return
    set(model, 'running')
    const query = { model, stream: isStream }
    const result: TestOutcome | undefined = await call(
      'testChannel',
      { params: { id: channel.id }, query },
      { signal },
    )
      // A stopped test has no result.
      .catch(error => (signal.aborted ? undefined : { success: false as const, message: words(error) }))
    set(model, result)
  }
  const start = async () => {
    stopping.current = new AbortController()
    const { signal } = stopping.current
    setRunning(true)
    setStates(new Map())
    await mapConcurrently(matches, model => test(model, signal))
    setRunning(false)
  }

  return (
    <Dialog title={t('test.models_title', { name: channel.name })} isOpen isWide onClose={onClose}>
      <div className="flex flex-wrap items-center gap-3">
        <TextInput
          type="search"
          className="sm:w-60"
          aria-label={t('models.search')}
          placeholder={t('models.search')}
          value={text}
          onChange={event => setText(event.target.value)}
        />
        <Checkbox
          label={t('test.stream')}
          checked={isStream}
          disabled={isRunning}
          onChange={event => setStream(event.target.checked)}
        />
        {isRunning ? (
          <Button onClick={() => stopping.current.abort()}>{t('test.stop')}</Button>
        ) : (
          <Button kind="primary" disabled={matches.length === 0} onClick={() => void start()}>
            {t('test.models', { count: matches.length })}
          </Button>
        )}
      </div>
      <ul className="max-h-80 divide-y divide-line overflow-y-auto" aria-label={t('channels.models')}>
        {matches.map(model => {
          const state = states.get(model)
          return (
            <li key={model} className="flex items-center gap-2 py-1.5 text-table">
              <StateIcon state={state} />
              <span className="min-w-0 grow truncate font-mono text-code" title={model}>
                {model}
              </span>
              <span className="max-w-[60%] text-right">
                {state === undefined ? (
                  <span className="text-ink-3">{t('test.waiting')}</span>
                ) : state === 'running' ? (
                  <span className="text-ink-3">{t('test.running')}</span>
                ) : (
                  <TestResultText tested={state} />
                )}
              </span>
            </li>
          )
        })}
      </ul>
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span className="text-label text-ink-3">{t('test.free')}</span>
        {failed.length > 0 && !isRunning ? (
          <Button onClick={() => setRemoving(true)}>
            {t('test.remove_failed', { count: failed.length })}
          </Button>
        ) : null}
      </div>
      {isRemoving ? (
        <Confirm
          title={t('test.remove_failed', { count: failed.length })}
          effect={
            <>
              <p>{t('test.remove_effect', { name: channel.name })}</p>
              <p className="font-mono text-code break-words">{failed.join(', ')}</p>
            </>
          }
          verb={t('bulk.remove')}
          onClose={() => setRemoving(false)}
          onConfirm={async () => {
            const models = channel.models.filter(model => !failed.includes(model))
            await update.mutateAsync({ body: { id: channel.id, models } })
            toast(t('editor.saved', { name: channel.name }))
          }}
        />
      ) : null}
    </Dialog>
  )
}
