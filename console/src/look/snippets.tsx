import { Tabs } from 'radix-ui'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { publicAddress } from '../api/base-path.ts'
import { type ApiCall, KEY_NAME, SNIPPETS, type SnippetName, snippetNames } from './code.ts'
import { CodeBlock } from './code-block.tsx'
import { CopyButton } from './copy.tsx'

/** Placeholder for an API key. */
const SOME_KEY = 'sk-…'

type CallSnippetsProps = Omit<ApiCall, 'apiKey'> & { readonly apiKey?: string }

/** Code examples of a request in several languages. */
export function CallSnippets({ apiKey = SOME_KEY, ...call }: CallSnippetsProps) {
  const { t } = useTranslation()
  const [chosen, choose] = useState<SnippetName>('curl')
  const text = SNIPPETS[chosen]({ ...call, apiKey })
  return (
    <Tabs.Root
      value={chosen}
      onValueChange={value => choose(value as SnippetName)}
      className="flex min-w-0 flex-col gap-2"
    >
      <div className="flex flex-wrap items-center justify-between gap-2">
        <TabList label={t('snippet.label')}>
          {snippetNames(call).map(name => (
            <Tab key={name} value={name}>
              {name}
            </Tab>
          ))}
        </TabList>
        <CopyButton text={text} label={t('snippet.copy')} isPrimary />
      </div>
      <Tabs.Content value={chosen} tabIndex={-1}>
        <CodeBlock data-snippet>{text}</CodeBlock>
      </Tabs.Content>
      <p className="text-label text-ink-3">
        {t('snippet.base')} <code className="font-mono text-code text-ink-2">{publicAddress}/v1</code> ·{' '}
        {t('snippet.key')} <code className="font-mono text-code text-ink-2">{KEY_NAME}</code>
      </p>
    </Tabs.Root>
  )
}

/** A curl command with a placeholder for the key. */
export const firstCall = (model: string) => SNIPPETS.curl({ apiKey: SOME_KEY, ...exampleChat(model) })

export const exampleChat = (model: string) => ({
  path: '/v1/chat/completions' as const,
  body: { model, messages: [{ role: 'user', content: 'Hello!' }] },
})

/** Code examples of a chat request with this key and model. */
export const Snippets = ({ apiKey, model }: { readonly apiKey: string; readonly model: string }) => (
  <CallSnippets apiKey={apiKey} {...exampleChat(model)} />
)

/** A row of tabs that scrolls when it is too long. The active tab is scrolled into view. */
export function TabList({ label, children }: { label: string; children: ReactNode }) {
  const list = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const chosen = list.current?.querySelector('[data-state="active"]')
    chosen?.scrollIntoView({ inline: 'center', block: 'nearest' })
  }, [])
  return (
    <Tabs.List ref={list} aria-label={label} className="flex gap-1 overflow-x-auto [scrollbar-width:none]">
      {children}
    </Tabs.List>
  )
}

export const Tab = ({ value, children }: { value: string; children: ReactNode }) => (
  <Tabs.Trigger
    value={value}
    className="h-8 rounded-control px-2.5 -outline-offset-2 whitespace-nowrap text-ink-2 hover:bg-sunken data-[state=active]:bg-accent-soft data-[state=active]:font-medium data-[state=active]:text-ink pointer-coarse:h-11"
  >
    {children}
  </Tabs.Trigger>
)
