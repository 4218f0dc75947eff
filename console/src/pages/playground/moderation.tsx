import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { classes } from '../../look/classes.ts'
import { Field, TextArea } from '../../look/field.tsx'
import { ModelField } from './model-field.tsx'
import { filledFields } from './parameters.ts'
import { useModel } from './use-model.ts'
import { Raw, Workbench } from './workbench.tsx'

type ModerationResult = {
  readonly results?: readonly {
    readonly flagged: boolean
    readonly categories?: Readonly<Record<string, boolean>>
    readonly category_scores?: Readonly<Record<string, number>>
  }[]
}

const linesOf = (text: string) => text.split('\n').filter(line => line.trim() !== '')

function Verdicts({
  judged,
  texts,
}: {
  readonly judged: ModerationResult
  readonly texts: readonly string[]
}) {
  const { t } = useTranslation()
  const results = judged.results ?? []
  const categories = [...new Set(results.flatMap(({ categories: flags = {} }) => Object.keys(flags)))]
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable
    <section className="overflow-x-auto" tabIndex={0} aria-label={t('playground.result')}>
      <table className="w-full text-table">
        <thead>
          <tr className="border-b border-line">
            <th scope="col" className="py-1 pr-3 text-left font-medium text-ink-3">
              {t('playground.category')}
            </th>
            {results.map(({ flagged }, index) => (
              <th
                // biome-ignore lint/suspicious/noArrayIndexKey: texts are known by their order
                key={index}
                scope="col"
                title={texts[index]}
                className="max-w-40 truncate px-2 py-1 text-right font-medium"
              >
                {texts[index] ?? index + 1}
                <span className={classes('block text-label', flagged ? 'text-bad' : 'text-ok')}>
                  {flagged ? t('playground.flagged') : t('playground.clean')}
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {categories.map(category => (
            <tr key={category} className="border-b border-line">
              <th scope="row" className="py-1 pr-3 text-left font-mono text-code font-normal">
                {category}
              </th>
              {results.map(({ categories: flags = {}, category_scores: scores = {} }, index) => (
                <td
                  // biome-ignore lint/suspicious/noArrayIndexKey: texts are known by their order
                  key={index}
                  className={classes('px-2 py-1 text-right', flags[category] && 'font-medium text-bad')}
                >
                  {flags[category] ? '● ' : ''}
                  {scores[category]?.toFixed(4) ?? '–'}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** Moderation. */
export function Moderation() {
  const { t } = useTranslation()
  const [model, setModel] = useModel('moderation')
  const [text, setText] = useState('')
  const texts = linesOf(text)
  return (
    <Workbench
      path="/v1/moderations"
      body={filledFields({ model, input: texts.length === 1 ? texts[0] : texts })}
      isReady={texts.length > 0}
      read={async response => ({ judged: (await response.json()) as ModerationResult, texts })}
      show={({ judged, texts: inputs }) => (
        <>
          <Verdicts judged={judged} texts={inputs} />
          <Raw value={judged} />
        </>
      )}
      empty={t('playground.moderation_empty')}
      examples={[
        {
          words: t('playground.moderation_example'),
          onTake: () => setText(t('playground.moderation_example')),
        },
      ]}
    >
      <ModelField kind="moderation" value={model} onChange={setModel} />
      <Field label={t('playground.texts')} help={t('playground.line_each')}>
        {wiring => (
          <TextArea {...wiring} rows={6} value={text} onChange={event => setText(event.target.value)} />
        )}
      </Field>
    </Workbench>
  )
}
