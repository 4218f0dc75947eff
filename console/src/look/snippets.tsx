import { Tabs } from 'radix-ui'
import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { publicAddress } from '../api/base-path.ts'
import { CodeBlock } from './code-block.tsx'
import { CopyButton } from './copy.tsx'

type Ask = { readonly apiKey: string; readonly model: string }

/** Ready to run as they stand: address, key and a model that answers are filled in. */
const SNIPPETS = {
  curl: ({ apiKey, model }: Ask) =>
    [
      `curl ${publicAddress}/v1/chat/completions \\`,
      `  -H 'Authorization: Bearer ${apiKey}' -H 'Content-Type: application/json' \\`,
      `  -d '${JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello!' }] })}'`,
    ].join('\n'),
  Python: ({ apiKey, model }: Ask) =>
    [
      'import requests',
      '',
      'answer = requests.post(',
      `    "${publicAddress}/v1/chat/completions",`,
      `    headers={"Authorization": "Bearer ${apiKey}"},`,
      `    json={"model": ${JSON.stringify(model)}, "messages": [{"role": "user", "content": "Hello!"}]},`,
      ')',
      'print(answer.json()["choices"][0]["message"]["content"])',
    ].join('\n'),
  Node: ({ apiKey, model }: Ask) =>
    [
      `const answer = await fetch('${publicAddress}/v1/chat/completions', {`,
      "  method: 'POST',",
      `  headers: { authorization: 'Bearer ${apiKey}', 'content-type': 'application/json' },`,
      `  body: JSON.stringify({ model: ${JSON.stringify(model)}, messages: [{ role: 'user', content: 'Hello!' }] }),`,
      '})',
      'console.log((await answer.json()).choices[0].message.content)',
    ].join('\n'),
} as const

type Language = keyof typeof SNIPPETS

export function Snippets(ask: Ask) {
  const { t } = useTranslation()
  const [chosen, choose] = useState<Language>('curl')
  const text = SNIPPETS[chosen](ask)
  return (
    <Tabs.Root
      value={chosen}
      onValueChange={value => choose(value as Language)}
      className="flex flex-col gap-2"
    >
      <div className="flex flex-wrap items-center justify-between gap-2">
        <TabList label={t('snippet.label')}>
          {(Object.keys(SNIPPETS) as Language[]).map(language => (
            <Tab key={language} value={language}>
              {language}
            </Tab>
          ))}
        </TabList>
        <CopyButton text={text} label={t('snippet.copy')} isPrimary />
      </div>
      <Tabs.Content value={chosen} tabIndex={-1}>
        <CodeBlock data-snippet>{text}</CodeBlock>
      </Tabs.Content>
      <p className="text-label text-ink-3">
        {t('snippet.base')} <code className="font-mono text-code text-ink-2">{publicAddress}/v1</code>
      </p>
    </Tabs.Root>
  )
}

export const TabList = ({ label, children }: { label: string; children: ReactNode }) => (
  <Tabs.List aria-label={label} className="flex gap-1 overflow-x-auto">
    {children}
  </Tabs.List>
)

export const Tab = ({ value, children }: { value: string; children: ReactNode }) => (
  <Tabs.Trigger
    value={value}
    className="h-8 rounded-control px-2.5 whitespace-nowrap text-ink-2 hover:bg-sunken data-[state=active]:bg-accent-soft data-[state=active]:font-medium data-[state=active]:text-ink pointer-coarse:h-11"
  >
    {children}
  </Tabs.Trigger>
)
