import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import type { Channel, ChannelTestView } from '../../api/contract.ts'
import { Button } from '../../look/button.tsx'
import { fromNow, span } from '../../look/format.ts'
import { Activity } from '../../look/icons.ts'
import { useErrorText } from '../../look/states.tsx'

/** The last test of a channel since the page was loaded, shared by list and panel. */
export type TestOutcome =
  | ChannelTestView
  | { readonly success: false; readonly message: string; readonly data?: undefined }

const keyOf = (id: number) => ['tested', id]

const useTested = (id: number) =>
  useQuery<TestOutcome | undefined>({ queryKey: keyOf(id), queryFn: () => undefined, enabled: false }).data

type TestOptions = { readonly model?: string | undefined; readonly stream?: boolean | undefined }

/** Sends a test request through a channel. It is not billed. */
export function useTest() {
  const client = useQueryClient()
  const words = useErrorText()
  const [running, setRunning] = useState<ReadonlySet<number>>(new Set())
  const test = async (id: number, { model, stream }: TestOptions = {}): Promise<TestOutcome> => {
    setRunning(before => new Set(before).add(id))
    const result: TestOutcome = await call('testChannel', {
      params: { id },
      query: { model, stream },
    }).catch(error => ({ success: false as const, message: words(error) }))
    client.setQueryData(keyOf(id), result)
    setRunning(before => new Set([...before].filter(each => each !== id)))
    void client.invalidateQueries({ queryKey: ['searchChannels'] })
    return result
  }
  return { test, isRunning: (id: number) => running.has(id) }
}

export function TestResultText({ tested }: { readonly tested: TestOutcome }) {
  const { t } = useTranslation()
  if (tested.success)
    return (
      <span className="text-ok">
        ✓ {span(tested.data?.latency_ms)}
        {tested.data?.first_token_ms === null ? null : (
          <span className="text-ink-3">
            {' '}
            · {t('test.first', { time: span(tested.data?.first_token_ms) })}
          </span>
        )}
      </span>
    )
  return (
    <span className="text-bad">
      ✕ {tested.data?.status ?? ''} <span className="break-words">{tested.message || t('test.failed')}</span>
    </span>
  )
}

/** The last test result, from this visit or an earlier one. */
export function LastTest({ channel }: { readonly channel: Channel }) {
  const { t } = useTranslation()
  const tested = useTested(channel.id)
  if (tested)
    return (
      <span className="line-clamp-2 text-table">
        <TestResultText tested={tested} />
      </span>
    )
  if (channel.test_time === 0) return <span className="whitespace-nowrap text-ink-3">{t('test.never')}</span>
  return (
    <span className="flex flex-wrap items-baseline gap-x-2">
      <span className="whitespace-nowrap">{span(channel.response_time)}</span>
      <span className="text-label whitespace-nowrap text-ink-3">{fromNow(channel.test_time)}</span>
    </span>
  )
}

export function TestButton({ id, name }: { readonly id: number; readonly name: string }) {
  const { t } = useTranslation()
  const { test, isRunning } = useTest()
  return (
    <Button
      isSmall
      icon={Activity}
      isBusy={isRunning(id)}
      aria-label={t('test.one', { name })}
      title={t('test.one', { name })}
      data-key="t"
      onClick={() => void test(id)}
    >
      <span className="hidden min-[1600px]:inline">{t('test.verb')}</span>
    </Button>
  )
}
