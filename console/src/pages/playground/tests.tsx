import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { AnswerOf } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button, IconButton } from '../../look/button.tsx'
import { Checkbox } from '../../look/field.tsx'
import { moneyOfOne, span } from '../../look/format.ts'
import { Play, Trash2 } from '../../look/icons.ts'
import { Sheet } from '../../look/page.tsx'
import { Empty, ErrorCard, Part } from '../../look/states.tsx'
import { useAction } from '../../look/use-action.ts'
import { DestinationFields, destinationOf } from '../usage/replay.tsx'

type SavedTest = AnswerOf<'updateTest'>
type Result = AnswerOf<'runTests'>['results'][number]

const MAX_LISTED = 100

function Outcome({ result }: { readonly result: Result }) {
  const { t } = useTranslation()
  return (
    <div className="flex flex-col gap-1 pl-6 text-table">
      <p className={result.passed ? 'text-ok' : 'text-bad'}>
        {result.passed ? t('tests.passed') : `${t('tests.failed')}: ${result.reason}`}
      </p>
      <p className="text-ink-3">
        {result.model} · {span(result.ms)} · {moneyOfOne(result.cost)}
      </p>
      <details>
        <summary>{t('bodies.answer')}</summary>
        <p className="whitespace-pre-wrap break-words">{result.answer}</p>
      </details>
    </div>
  )
}

type TestItemProps = {
  readonly test: SavedTest
  readonly result: Result | undefined
  readonly isChosen: boolean
  readonly onChoose: (isChosen: boolean) => void
}

function TestItem({ test, result, isChosen, onChoose }: TestItemProps) {
  const { t } = useTranslation()
  const remove = useAction('deleteTest')
  return (
    <li className="flex flex-col gap-1 px-4 py-2">
      <div className="flex items-center justify-between gap-2">
        <Checkbox
          label={
            <>
              {test.name}{' '}
              <span className="text-ink-3">
                {test.model} · {t(`tests.kinds.${test.check.kind}`)}
              </span>
            </>
          }
          checked={isChosen}
          onChange={event => onChoose(event.target.checked)}
        />
        <IconButton
          icon={Trash2}
          label={t('tests.remove', { name: test.name })}
          onClick={() => void remove.run({ params: { id: String(test.id) } })}
        />
      </div>
      {result ? <Outcome result={result} /> : null}
    </li>
  )
}

/** Saved requests, which are sent again to check their answers. */
export function SavedTests() {
  const { t } = useTranslation()
  const list = useCall('listTests', { query: { page_size: MAX_LISTED } })
  const run = useRouteMutation('runTests')
  const [left, setLeft] = useState<ReadonlySet<number>>(new Set())
  const [model, setModel] = useState('')
  const [channel, setChannel] = useState('')
  const tests = list.data?.items ?? []
  const chosen = tests.filter(({ id }) => !left.has(id)).map(({ id }) => id)
  const resultOf = (id: number) => run.data?.results.find(result => result.test_id === id)
  return (
    <Sheet title={t('tests.title')}>
      <Part result={list}>
        {tests.length === 0 ? (
          <Empty title={t('tests.none')}>{t('tests.none_help')}</Empty>
        ) : (
          <>
            <form
              className="flex flex-wrap items-end gap-2 border-b border-line p-4"
              onSubmit={event => {
                event.preventDefault()
                run.mutate({ body: { test_ids: chosen, ...destinationOf(model, channel) } })
              }}
            >
              <DestinationFields model={model} channel={channel} onModel={setModel} onChannel={setChannel} />
              <Button
                type="submit"
                kind="primary"
                icon={Play}
                isBusy={run.isPending}
                disabled={chosen.length === 0}
              >
                {t('tests.run', { count: chosen.length })}
              </Button>
              <p role="status" className="w-full text-label text-ink-2">
                {run.data ? t('tests.sums', { passed: run.data.passed, failed: run.data.failed }) : ''}
              </p>
            </form>
            {run.error ? <ErrorCard error={run.error} /> : null}
            <ul className="divide-y divide-line">
              {tests.map(test => (
                <TestItem
                  key={test.id}
                  test={test}
                  result={resultOf(test.id)}
                  isChosen={!left.has(test.id)}
                  onChoose={isChosen =>
                    setLeft(isChosen ? left.difference(new Set([test.id])) : new Set([...left, test.id]))
                  }
                />
              ))}
            </ul>
          </>
        )}
      </Part>
    </Sheet>
  )
}
