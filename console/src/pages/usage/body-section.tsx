import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { AnswerOf, UsageItem } from '../../api/contract.ts'
import { ApiError } from '../../api/errors.ts'
import { useCall } from '../../api/query.ts'
import { useIsRoot, useSelf } from '../../api/self.ts'
import { CodeBlock } from '../../look/code-block.tsx'
import { CopyButton } from '../../look/copy.tsx'
import { count } from '../../look/format.ts'
import { Section } from '../../look/panel.tsx'
import { Part } from '../../look/states.tsx'
import { readable } from './readable.ts'
import { Replay } from './replay.tsx'
import { SaveTest } from './save-test.tsx'

type Body = AnswerOf<'getBody'>

const WRITTEN_WITHIN_S = 10

function Side({ title, side }: { readonly title: string; readonly side: Body['answer'] }) {
  const { t } = useTranslation()
  const notes = [
    t('bodies.size', { size: count(side.size) }),
    ...(side.is_truncated ? [t('bodies.truncated')] : []),
    ...(side.is_masked ? [t('bodies.masked')] : []),
  ]
  return (
    <div className="flex flex-col gap-1">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h4 className="text-label font-medium text-ink-2">
          {title} <span className="font-normal text-ink-3">{notes.join(' · ')}</span>
        </h4>
        {side.text ? <CopyButton text={side.text} /> : null}
      </div>
      {side.text === null ? null : (
        <div className="max-h-96 overflow-y-auto">
          <CodeBlock>{readable(side.text)}</CodeBlock>
        </div>
      )}
    </div>
  )
}

function Parts({ parts }: { readonly parts: Body['request']['parts'] }) {
  const { t } = useTranslation()
  if (parts.length === 0) return null
  return (
    <ul className="text-table">
      {parts.map(({ name, is_file, size }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: names of parts may repeat
        <li key={index}>
          <code>{name}</code> {is_file ? `${t('bodies.file')} · ` : ''}
          {t('bodies.size', { size: count(size) })}
        </li>
      ))}
    </ul>
  )
}

function Loaded({ row }: { readonly row: UsageItem }) {
  const { t } = useTranslation()
  // Every reading is in the audit log, so it is not repeated while the panel is open.
  const result = useCall(
    'getBody',
    { params: { request_id: row.request_id } },
    { staleMs: Number.POSITIVE_INFINITY },
  )
  const { data, error } = result
  if (error instanceof ApiError && error.status === 404)
    return <p className="pt-2 text-ink-2">{t('bodies.none_kept')}</p>
  return (
    <Part result={result}>
      {data ? (
        <div className="flex flex-col gap-3 pt-2">
          <Side title={t('usage.request')} side={data.request} />
          <Parts parts={data.request.parts} />
          <Side title={t('bodies.answer')} side={data.answer} />
          {data.request.text === null || data.request.is_truncated ? null : (
            <>
              <Replay row={row} />
              <SaveTest row={row} />
            </>
          )}
        </div>
      ) : null}
    </Part>
  )
}

/** The kept bodies, for those who may read them. They are loaded when the section is opened. */
export function BodySection({ row, hasBody }: { readonly row: UsageItem; readonly hasBody: boolean }) {
  const { t } = useTranslation()
  const { id } = useSelf()
  const isRoot = useIsRoot()
  const [isOpen, setOpen] = useState(false)
  if (row.request_id === '' || (row.user_id !== id && !isRoot)) return null
  // A body is written shortly after its row.
  const isOld = Date.now() / 1000 - row.created_at > WRITTEN_WITHIN_S
  if (!hasBody && isOld)
    return (
      <Section title={t('bodies.section')}>
        <p className="text-ink-2">
          {t('bodies.none_kept')}{' '}
          {row.user_id !== id ? null : row.token_id ? (
            <Link to="/tokens/$id" params={{ id: String(row.token_id) }} hash="log_bodies">
              {t('bodies.change')}
            </Link>
          ) : (
            <Link to="/me">{t('bodies.change')}</Link>
          )}
        </p>
      </Section>
    )
  return (
    <Section title={t('bodies.section')}>
      <details onToggle={event => setOpen(event.currentTarget.open)}>
        <summary>{t('bodies.show')}</summary>
        {isOpen ? <Loaded row={row} /> : null}
      </details>
    </Section>
  )
}
