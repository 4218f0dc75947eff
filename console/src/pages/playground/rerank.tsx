import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Field, TextArea, TextInput } from '../../look/field.tsx'
import { ModelField } from './model-field.tsx'
import { filledFields, numeric } from './parameters.ts'
import { useModel } from './use-model.ts'
import { Raw, Workbench } from './workbench.tsx'

type RerankResult = {
  readonly results?: readonly { readonly index: number; readonly relevance_score: number }[]
}

/** Documents as a JSON array, or one per line. */
function documentsOf(text: string): readonly unknown[] {
  if (text.trim().startsWith('['))
    try {
      const read: unknown = JSON.parse(text)
      if (Array.isArray(read)) return read
    } catch {
      // Not JSON: read lines instead.
    }
  return text.split('\n').filter(line => line.trim() !== '')
}
const wordsOf = (document: unknown) => (typeof document === 'string' ? document : JSON.stringify(document))

function Ranking({
  ranked,
  documents,
}: {
  readonly ranked: RerankResult
  readonly documents: readonly unknown[]
}) {
  const { t } = useTranslation()
  const { results = [] } = ranked
  const most = Math.max(...results.map(({ relevance_score }) => relevance_score), Number.EPSILON)
  return (
    <ol className="flex flex-col gap-3">
      {results.map(({ index, relevance_score: score }) => (
        <li key={index} className="flex flex-col gap-1">
          <span className="flex justify-between gap-4">
            <span className="min-w-0 break-words">{wordsOf(documents[index])}</span>
            <span className="shrink-0">{score.toFixed(4)}</span>
          </span>
          <svg viewBox="0 0 100 4" preserveAspectRatio="none" className="h-1.5 w-full" aria-hidden="true">
            <rect width="100" height="4" className="fill-sunken" />
            <rect width={Math.max(0, score / most) * 100} height="4" className="fill-accent" />
          </svg>
          <span className="text-label text-ink-3">
            {t('playground.previous_rank', { number: index + 1 })}
          </span>
        </li>
      ))}
    </ol>
  )
}

/** Reranking of documents. */
export function Rerank() {
  const { t } = useTranslation()
  const [model, setModel] = useModel('jina-rerank')
  const [values, setValues] = useState({ query: '', documents: '', top_n: '' })
  const set = (changes: Partial<typeof values>) => setValues({ ...values, ...changes })
  const documents = documentsOf(values.documents)
  return (
    <Workbench
      path="/v1/rerank"
      body={filledFields({ model, query: values.query, documents, top_n: numeric(values.top_n) })}
      isReady={model !== '' && values.query.trim() !== '' && documents.length > 0}
      read={async response => ({ ranked: (await response.json()) as RerankResult, documents })}
      show={({ ranked, documents: inputs }) => (
        <>
          <Ranking ranked={ranked} documents={inputs} />
          <Raw value={ranked} />
        </>
      )}
      empty={t('playground.rerank_empty')}
      examples={[
        {
          words: t('playground.rerank_query'),
          onTake: () =>
            set({ query: t('playground.rerank_query'), documents: t('playground.rerank_documents') }),
        },
      ]}
    >
      <ModelField kind="jina-rerank" value={model} onChange={setModel} />
      <Field label={t('playground.query')}>
        {wiring => (
          <TextInput
            {...wiring}
            value={values.query}
            onChange={event => set({ query: event.target.value })}
          />
        )}
      </Field>
      <Field label={t('playground.documents')} help={t('playground.documents_help')}>
        {wiring => (
          <TextArea
            {...wiring}
            rows={6}
            value={values.documents}
            onChange={event => set({ documents: event.target.value })}
          />
        )}
      </Field>
      <Field label={t('playground.top_n')} className="w-36">
        {wiring => (
          <TextInput
            {...wiring}
            type="number"
            min={1}
            placeholder={t('playground.default')}
            value={values.top_n}
            onChange={event => set({ top_n: event.target.value })}
          />
        )}
      </Field>
    </Workbench>
  )
}
