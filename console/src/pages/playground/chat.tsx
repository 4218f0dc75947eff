import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button, IconButton } from '../../look/button.tsx'
import { classes } from '../../look/classes.ts'
import { Field, TextArea, TextInput } from '../../look/field.tsx'
import { Eraser, FileDown, Pencil, Plus, X } from '../../look/icons.ts'
import { Sheet } from '../../look/page.tsx'
import { Empty } from '../../look/states.tsx'
import { Answer } from './answer.tsx'
import { useAvailableModels, useBillingToken } from './available-models.ts'
import { Composer } from './composer.tsx'
import { type ChatTurn, messagesOf, type Prompt, useConversations } from './conversations.ts'
import { ModelField } from './model-field.tsx'
import { filledFields, numeric, readFields } from './parameters.ts'
import { CHAT_PATH, streamed } from './send-chat.ts'
import { useModel } from './use-model.ts'
import { AsCode, PLAYGROUND_GRID } from './workbench.tsx'

const EXAMPLES = ['example_one', 'example_two'] as const
const NOTHING: Prompt = { text: '', pictures: [] }
const MAX_MODELS = 4
const NUMBERS = [
  { name: 'temperature', max: 2, step: 0.1 },
  { name: 'top_p', max: 1, step: 0.05 },
  { name: 'max_tokens', max: 1_000_000, step: 1 },
] as const

type Values = Record<(typeof NUMBERS)[number]['name'] | 'system' | 'more', string>
const UNSET: Values = { system: '', more: '', temperature: '', top_p: '', max_tokens: '' }

/** The conversation as Markdown. */
const asMarkdown = (columns: readonly (readonly ChatTurn[])[]) =>
  columns
    .flatMap(turns =>
      turns.map(({ prompt, model, answer }) => `## ${prompt.text}\n\n*${model}*\n\n${answer}\n`),
    )
    .join('\n')

function save(text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: 'text/markdown' }))
  const link = document.createElement('a')
  link.href = address
  link.download = 'conversation.md'
  link.click()
  URL.revokeObjectURL(address)
}

type ColumnProps = {
  readonly turns: readonly ChatTurn[]
  readonly label: string
  readonly onEdit: ((index: number) => void) | undefined
}

function Column({ turns, label, onEdit }: ColumnProps) {
  const { t } = useTranslation()
  return (
    <ol aria-label={label} className="flex min-w-0 flex-col gap-4 p-4">
      {turns.map((turn, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: turns are only ever added
        <li key={index} className="flex flex-col gap-3">
          <div className="ml-auto flex max-w-[85%] items-start gap-1">
            {onEdit ? (
              <IconButton
                icon={Pencil}
                label={t('playground.edit')}
                className="size-6 shrink-0 pointer-coarse:size-8"
                onClick={() => onEdit(index)}
              />
            ) : null}
            <div className="flex min-w-0 flex-col gap-2 rounded-sheet bg-accent-soft px-3 py-2">
              <p className="break-words whitespace-pre-wrap">{turn.prompt.text}</p>
              {turn.prompt.pictures.map((picture, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the same picture may be there twice
                <img key={at} src={picture} alt="" className="max-h-40 rounded-control object-contain" />
              ))}
            </div>
          </div>
          <Answer turn={turn} />
        </li>
      ))}
    </ol>
  )
}

/** The compared models, two to four. */
function useCompared(first: string) {
  const callable = useAvailableModels('openai').map(({ model_name }) => model_name)
  const [chosen, choose] = useState<readonly (string | undefined)[]>([undefined, undefined])
  const models: string[] = []
  for (const [at, name] of chosen.entries())
    models.push(name ?? (at === 0 ? first : callable.find(each => !models.includes(each))) ?? first)
  return { models, choose }
}

/** Chat with one model, or with several side by side. */
export function Chat({ isComparing = false }: { readonly isComparing?: boolean }) {
  const { t } = useTranslation()
  const tokenId = useBillingToken()?.id
  const [single, setSingle] = useModel('openai')
  const { models: compared, choose } = useCompared(single)
  const [draft, setDraft] = useState(NOTHING)
  const [values, setValues] = useState(UNSET)
  const { columns, isBusy, ask, stop, cutAt, clear } = useConversations()
  const leave = useRef(stop)
  leave.current = stop
  // Leaving the page stops the requests, so that no further tokens are billed.
  useEffect(() => () => leave.current(), [])

  const models = isComparing ? compared : [single]
  const more = readFields(values.more)
  const numbers = Object.fromEntries(NUMBERS.map(({ name }) => [name, numeric(values[name])]))
  const parameters = { ...filledFields(numbers), ...more }
  const system = values.system.trim()
  const isEmpty = columns.every(turns => turns.length === 0)
  const isReady = models.every(model => model !== '') && more !== undefined
  const run = (prompt: Prompt) => {
    if (!isReady || isBusy) return
    setDraft(NOTHING)
    ask(prompt, models, { tokenId, system, parameters })
  }
  const edit = (index: number) => {
    setDraft(columns[0]?.[index]?.prompt ?? NOTHING)
    cutAt(index)
  }
  const setModel = (at: number, model: string) =>
    isComparing
      ? choose(before => before.map((each, index) => (index === at ? model : each)))
      : setSingle(model)
  const coded = draft.text === '' ? (columns[0]?.at(-1)?.prompt ?? NOTHING) : draft
  const before = draft.text === '' ? columns[0]?.slice(0, -1) : columns[0]

  return (
    <div className={`grow ${PLAYGROUND_GRID}`}>
      <div className="flex min-w-0 flex-col gap-4">
        <section className="sheet flex min-h-96 min-w-0 flex-col lg:h-[calc(100dvh-208px)]">
          <div
            // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable
            tabIndex={0}
            className="min-h-0 grow overflow-y-auto outline-offset-[-2px]"
            role="log"
            aria-label={t('playground.log')}
          >
            {isEmpty ? (
              <Empty title={isComparing ? t('playground.compare_empty') : t('playground.empty')}>
                <div className="flex flex-col gap-2">
                  {EXAMPLES.map(example => (
                    <Button
                      key={example}
                      className="h-auto! py-1.5 whitespace-normal!"
                      disabled={!isReady}
                      onClick={() => run({ text: t(`playground.${example}`), pictures: [] })}
                    >
                      {t(`playground.${example}`)}
                    </Button>
                  ))}
                </div>
              </Empty>
            ) : (
              <div
                className={classes(
                  'grid',
                  columns.length > 1 && 'md:grid-cols-2 md:divide-x md:divide-line',
                  columns.length > 2 && '2xl:grid-cols-4',
                )}
              >
                {columns.map((turns, at) => (
                  <Column
                    // biome-ignore lint/suspicious/noArrayIndexKey: columns are known by their place
                    key={at}
                    turns={turns}
                    label={models[at] ?? ''}
                    onEdit={isBusy || at > 0 ? undefined : edit}
                  />
                ))}
              </div>
            )}
          </div>
          <Composer
            prompt={draft}
            onChange={setDraft}
            onRun={run}
            onStop={stop}
            isBusy={isBusy}
            canAsk={isReady}
          />
        </section>
        <AsCode
          path={CHAT_PATH}
          body={streamed({
            model: models[0] ?? '',
            messages: messagesOf(before ?? [], system, coded),
            ...parameters,
          })}
        />
      </div>
      {/* On a phone the settings are below the conversation. */}
      <Sheet title={t('playground.settings')} className="lg:order-first">
        <div className="flex flex-col gap-4 p-4">
          {models.map((model, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: models are known by their place
            <div key={at} className="flex items-start gap-1">
              <div className="min-w-0 grow">
                <ModelField
                  kind="openai"
                  label={
                    isComparing ? t('playground.model_number', { number: at + 1 }) : t('playground.model')
                  }
                  value={model}
                  onChange={name => setModel(at, name)}
                />
              </div>
              {isComparing && models.length > 2 ? (
                <IconButton
                  icon={X}
                  className="mt-5"
                  label={t('editor.remove', { name: model })}
                  disabled={!isEmpty}
                  onClick={() => choose(each => each.filter((_, index) => index !== at))}
                />
              ) : null}
            </div>
          ))}
          {isComparing && models.length < MAX_MODELS ? (
            <Button icon={Plus} disabled={!isEmpty} onClick={() => choose(each => [...each, undefined])}>
              {t('playground.add_model')}
            </Button>
          ) : null}
          <Field label={t('playground.system')}>
            {wiring => (
              <TextArea
                {...wiring}
                rows={3}
                value={values.system}
                onChange={event => setValues({ ...values, system: event.target.value })}
              />
            )}
          </Field>
          <div className="grid grid-cols-2 gap-3">
            {NUMBERS.map(({ name, max, step }) => (
              <Field key={name} label={t(`playground.${name}`)}>
                {wiring => (
                  <TextInput
                    {...wiring}
                    type="number"
                    min={name === 'max_tokens' ? 1 : 0}
                    max={max}
                    step={step}
                    placeholder={t('playground.default')}
                    value={values[name]}
                    onChange={event => setValues({ ...values, [name]: event.target.value })}
                  />
                )}
              </Field>
            ))}
          </div>
          <Field
            label={t('playground.more')}
            help={t('playground.more_help')}
            error={more === undefined ? t('playground.not_json') : undefined}
          >
            {wiring => (
              <TextArea
                {...wiring}
                rows={3}
                className="font-mono text-code"
                placeholder='{"tools": […]}'
                value={values.more}
                onChange={event => setValues({ ...values, more: event.target.value })}
              />
            )}
          </Field>
          {isEmpty ? null : (
            <div className="flex flex-wrap gap-2">
              <Button icon={Eraser} onClick={clear}>
                {t('playground.clear')}
              </Button>
              <Button icon={FileDown} onClick={() => save(asMarkdown(columns))}>
                {t('playground.export')}
              </Button>
            </div>
          )}
        </div>
      </Sheet>
    </div>
  )
}
