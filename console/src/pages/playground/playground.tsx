import { Link, useSearch } from '@tanstack/react-router'
import { Columns2, Eraser, Send, Square } from 'lucide-react'
import { useId, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { Choice, Field, Switch, TextArea, TextInput } from '../../look/field.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { Answer } from './answer.tsx'
import { type Turn, useConversation } from './conversation.ts'

const EXAMPLES = ['example_one', 'example_two'] as const

/** The settings of a request; only those that are switched on are sent. */
type Settings = { system: string; temperature: string; maxTokens: string }

function Conversation({ turns, label }: { readonly turns: readonly Turn[]; readonly label: string }) {
  return (
    <ol aria-label={label} className="flex flex-col gap-4 p-4">
      {turns.map((turn, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: turns are only ever added
        <li key={index} className="flex flex-col gap-3">
          <p className="ml-auto max-w-[85%] rounded-sheet bg-accent-soft px-3 py-2 break-words whitespace-pre-wrap">
            {turn.question}
          </p>
          <Answer turn={turn} />
        </li>
      ))}
    </ol>
  )
}

export function Playground() {
  const { t } = useTranslation()
  const models = useId()
  const { model: asked } = useSearch({ strict: false }) as { model?: string }
  const tokens = useCall('listTokens', { query: { page_size: 100 } })
  const usable = useCall('listUsableModels', {})
  const [tokenId, setTokenId] = useState<number>()
  const [model, setModel] = useState(asked)
  const [second, setSecond] = useState('')
  const [isComparing, setComparing] = useState(false)
  const [text, setText] = useState('')
  const [settings, setSettings] = useState<Settings>({ system: '', temperature: '', maxTokens: '' })
  const field = useRef<HTMLTextAreaElement>(null)
  const left = useConversation()
  const right = useConversation()

  const working = tokens.data?.items.filter(({ status }) => status === 1) ?? []
  const token = working.find(({ id }) => id === tokenId) ?? working[0]
  const first = model ?? usable.data?.[0] ?? ''
  const other = second || usable.data?.find(name => name !== first) || first
  const isBusy = left.isBusy || right.isBusy
  const isEmpty = left.turns.length === 0

  const run = (question: string) => {
    if (!token || !first || question.trim() === '' || isBusy) return
    const sent = {
      tokenId: token.id,
      system: settings.system.trim(),
      ...(settings.temperature === '' ? {} : { temperature: Number(settings.temperature) }),
      ...(settings.maxTokens === '' ? {} : { maxTokens: Number(settings.maxTokens) }),
    }
    setText('')
    void left.ask(question, { ...sent, model: first })
    if (isComparing) void right.ask(question, { ...sent, model: other })
    field.current?.focus()
  }
  const stop = () => {
    left.stop()
    right.stop()
  }
  const clear = () => {
    left.clear()
    right.clear()
  }

  return (
    <Page
      title={t('nav.playground')}
      actions={
        isEmpty ? null : (
          <Button icon={Eraser} onClick={clear}>
            {t('playground.clear')}
          </Button>
        )
      }
    >
      <Part result={tokens}>
        {token ? (
          <div className="grid grow gap-4 lg:grid-cols-[1fr_280px]">
            <section className="sheet flex min-h-96 min-w-0 flex-col lg:h-[calc(100dvh-104px)]">
              <div
                // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable
                tabIndex={0}
                className="min-h-0 grow overflow-y-auto outline-offset-[-2px]"
                role="log"
                aria-label={t('playground.log')}
              >
                {isEmpty ? (
                  <Empty title={t('playground.empty')}>
                    <div className="flex flex-col gap-2">
                      {EXAMPLES.map(example => (
                        <Button key={example} onClick={() => run(t(`playground.${example}`))}>
                          {t(`playground.${example}`)}
                        </Button>
                      ))}
                    </div>
                  </Empty>
                ) : (
                  <div className={isComparing ? 'grid md:grid-cols-2 md:divide-x md:divide-line' : ''}>
                    <Conversation turns={left.turns} label={first} />
                    {isComparing ? <Conversation turns={right.turns} label={other} /> : null}
                  </div>
                )}
              </div>
              <form
                className="flex items-end gap-2 border-t border-line p-3"
                onSubmit={event => {
                  event.preventDefault()
                  run(text)
                }}
              >
                <TextArea
                  ref={field}
                  rows={2}
                  aria-label={t('playground.message')}
                  placeholder={t('playground.message')}
                  value={text}
                  onChange={event => setText(event.target.value)}
                  onKeyDown={event => {
                    if (event.nativeEvent.isComposing) return
                    if (event.key === 'Enter' && (event.metaKey || event.ctrlKey || !event.shiftKey)) {
                      event.preventDefault()
                      run(text)
                    }
                    if (event.key === 'Escape' && isBusy) stop()
                  }}
                />
                {isBusy ? (
                  <Button icon={Square} onClick={stop}>
                    {t('playground.stop')}
                  </Button>
                ) : (
                  <Button type="submit" kind="primary" icon={Send} disabled={text.trim() === ''}>
                    {t('playground.run')}
                  </Button>
                )}
              </form>
            </section>
            <Sheet title={t('playground.settings')}>
              <div className="flex flex-col gap-4 p-4">
                <Field label={t('playground.model')}>
                  {wiring => (
                    <TextInput
                      {...wiring}
                      list={models}
                      className="font-mono"
                      value={first}
                      onChange={event => setModel(event.target.value)}
                    />
                  )}
                </Field>
                <datalist id={models}>
                  {usable.data?.map(name => (
                    <option key={name} value={name} />
                  ))}
                </datalist>
                <span className="flex items-center gap-2">
                  <Columns2 size={16} aria-hidden className="text-ink-3" />
                  <Switch label={t('playground.compare')} isOn={isComparing} onChange={setComparing} />
                </span>
                {isComparing ? (
                  <Field label={t('playground.second')}>
                    {wiring => (
                      <TextInput
                        {...wiring}
                        list={models}
                        className="font-mono"
                        value={other}
                        onChange={event => setSecond(event.target.value)}
                      />
                    )}
                  </Field>
                ) : null}
                <Field label={t('playground.runs_as')} help={t('playground.runs_as_help')}>
                  {wiring => (
                    <Choice
                      {...wiring}
                      value={token.id}
                      onChange={event => setTokenId(Number(event.target.value))}
                    >
                      {working.map(({ id, name }) => (
                        <option key={id} value={id}>
                          {name}
                        </option>
                      ))}
                    </Choice>
                  )}
                </Field>
                <Field label={t('playground.system')}>
                  {wiring => (
                    <TextArea
                      {...wiring}
                      rows={3}
                      value={settings.system}
                      onChange={event => setSettings({ ...settings, system: event.target.value })}
                    />
                  )}
                </Field>
                <div className="grid grid-cols-2 gap-3">
                  <Field label={t('playground.temperature')}>
                    {wiring => (
                      <TextInput
                        {...wiring}
                        type="number"
                        min={0}
                        max={2}
                        step={0.1}
                        placeholder={t('playground.unset')}
                        value={settings.temperature}
                        onChange={event => setSettings({ ...settings, temperature: event.target.value })}
                      />
                    )}
                  </Field>
                  <Field label={t('playground.max_tokens')}>
                    {wiring => (
                      <TextInput
                        {...wiring}
                        type="number"
                        min={1}
                        placeholder={t('playground.unset')}
                        value={settings.maxTokens}
                        onChange={event => setSettings({ ...settings, maxTokens: event.target.value })}
                      />
                    )}
                  </Field>
                </div>
              </div>
            </Sheet>
          </div>
        ) : (
          <Sheet>
            <Empty title={t('playground.no_token')}>
              <p>{t('playground.no_token_help')}</p>
              <Link to="/tokens/new" className={buttonClasses('primary')}>
                {t('tokens.create')}
              </Link>
            </Empty>
          </Sheet>
        )}
      </Part>
    </Page>
  )
}
