import { OPERATIONS, type Operation } from '../../src/domain/operation.ts'
import { offersOf, type Provider, providers, spokenFor } from '../../src/providers/index.ts'

const SCHEMES = {
  'aws-sigv4': 'signed by AWS Signature 4',
  'google-service-account': 'service account, traded for a token',
  'access-secret-jwt': 'access and secret key, as a short JWT',
  'volcengine-v4': 'access and secret key, signed as Volcengine wants it',
} as const

/** How a key travels: the headers that the vendor's own function makes of one. */
function authOf({ auth, exchange }: Provider): string {
  const headers = Object.entries(auth?.('KEY') ?? {}).map(([name, value]) => `\`${name}: ${value}\``)
  return [...headers, ...(exchange ? [SCHEMES[exchange.scheme]] : [])].join('; or ')
}

/** What of an operation a reader wants to know beyond that it is there. */
function cellOf(provider: Provider, operation: Operation): string {
  const formats = spokenFor(provider, operation)
  if (formats.length === 0) return ''
  if (operation === 'chat') return formats.join(', ')
  if (operation !== 'speech') return 'yes'
  const dialects = Object.values(provider.dialects?.speech ?? {})
  return [...new Set(dialects.flatMap(({ formats: sounds }) => sounds))].join(', ') || 'yes'
}

const TRANSCRIPTS = 5

/** What differs from the common shape, where the vendor's file says it as data. */
function quirksOf(provider: Provider): string[] {
  const { headers, usage, encoding, voices, transcripts, picturesInside, isKeyTrouble, speaks, dialects } =
    provider
  const dialect = encoding?.dialect
  const tasks = Object.values(dialects?.images ?? {}).flatMap(each => each.tasks ?? [])
  const film = Object.values(dialects?.videos ?? {})[0]
  const written = transcripts?.('') ?? []
  return [
    ...Object.keys(headers ?? {}).map(name => `sends \`${name}\``),
    ...(usage?.reasoningOutside ? ['reasoning tokens stand beside `completion_tokens`'] : []),
    ...(dialect?.refused?.length
      ? [`chat without ${dialect.refused.map(word => `\`${word}\``).join(', ')}`]
      : []),
    ...(voices?.names ? [`voices ${voices.names.join(', ')}`] : []),
    ...(voices?.standIns ? ['the six voices have stand-ins'] : []),
    ...Object.entries(dialects?.speech ?? {}).flatMap(([format, each]) =>
      each.voices ? [`models that speak as ${format} have voices of their own, which the channel names`] : [],
    ),
    ...(written.length > 0 && written.length < TRANSCRIPTS
      ? [`writes transcripts as ${written.join(', ')}; the others are made here`]
      : []),
    ...(picturesInside ? ['some models give pictures only inside the answer'] : []),
    ...(tasks.length > 0 ? [`pictures also by ${[...new Set(tasks)].join(', ')}`] : []),
    ...(film ? [film.find ? 'lost video jobs are found again' : 'lost video jobs stand in suspense'] : []),
    ...(film?.remix ? ['videos can be remixed'] : []),
    ...(speaks ? ['the format goes by the model’s name'] : []),
    ...(isKeyTrouble ? ['trouble of a key is known also where the status hides it'] : []),
  ]
}

/** A table whose columns are as wide as their longest cell. */
function table(rows: readonly (readonly string[])[]): string {
  const [head = []] = rows
  const widths = head.map((_, column) => Math.max(3, ...rows.map(row => (row[column] ?? '').length)))
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  return [line(head), line(widths.map(width => '-'.repeat(width))), ...rows.slice(1).map(line)].join('\n')
}

const byName = providers.toSorted((a, b) => a.name.localeCompare(b.name, 'en'))

/** The page docs/providers.md, as the provider files make it. */
export function providersPage(): string {
  const operations = OPERATIONS.filter(name => providers.some(each => offersOf(each).includes(name)))
  const offers = [
    ['Provider', 'type', ...operations],
    ...byName.map(each => [
      each.name,
      String(each.type),
      ...operations.map(operation => cellOf(each, operation)),
    ]),
  ]
  const keys = [
    ['Provider', 'Address', 'How a key travels', 'What a key looks like', 'Lists models'],
    ...byName.map(each => [
      each.name,
      each.baseUrl ?? 'the channel’s `base_url`',
      authOf(each),
      each.keyHint.replaceAll('|', '\\|').replaceAll('<', '&lt;'),
      each.models ? 'yes' : '',
    ]),
  ]
  const quirks = byName.flatMap(each => {
    const found = quirksOf(each)
    return found.length === 0 ? [] : [`- **${each.name}**: ${found.join('; ')}.`]
  })
  return `# Providers

<!-- Made from src/providers by \`npm run docs:providers\`; a test fails when it is out of date. -->

What a channel of each type can be asked for. Chats in any of the formats that clients speak are translated where the
provider has another; the cell names the formats that are spoken with it, and what passes untouched is the client's own.
\`GET /api/channel/types\` tells the same to programs. How a request is worded: [operations.md](operations.md),
[videos.md](videos.md), [formats.md](formats.md).

${table(offers)}

## Addresses and keys

${table(keys)}

## What differs

${quirks.join('\n')}
`
}
