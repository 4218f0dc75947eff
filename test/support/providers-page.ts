import { OPERATIONS, type Operation } from '../../src/domain/operation.ts'
import { offersOf, type Provider, providers, supportedFormats } from '../../src/providers/index.ts'

/** How a key is sent: the headers that the vendor's own function makes from it. */
function authOf({ auth, exchange }: Provider): string {
  const headers = Object.entries(auth?.('KEY') ?? {}).map(([name, value]) => `\`${name}: ${value}\``)
  return [...headers, ...(exchange ? [exchange.description] : [])].join('; or ')
}

/** The details of an operation beyond its existence. */
function cellOf(provider: Provider, operation: Operation): string {
  const formats = supportedFormats(provider, operation)
  if (formats.length === 0) return ''
  if (operation === 'chat') return formats.join(', ')
  if (operation !== 'speech') return 'yes'
  const dialects = Object.values(provider.dialects?.speech ?? {})
  return [...new Set(dialects.flatMap(({ formats: sounds }) => sounds))].join(', ') || 'yes'
}

const TRANSCRIPTS = 5

/** Differences from the common format, if the vendor's file declares them as data. */
function quirksOf(provider: Provider): string[] {
  const {
    headers,
    usage,
    limitsAnswerOnly,
    encoding,
    voices,
    transcripts,
    picturesInside,
    isKeyError,
    formatsOfModel,
    dialects,
  } = provider
  const dialect = encoding?.dialect
  const tasks = Object.values(dialects?.images ?? {}).flatMap(each => each.tasks ?? [])
  const film = Object.values(dialects?.videos ?? {})[0]
  const transcriptFormats = transcripts?.('') ?? []
  return [
    ...Object.keys(headers ?? {}).map(name => `sends \`${name}\``),
    ...(usage?.reasoningOutside ? ['`completion_tokens` does not include reasoning tokens'] : []),
    ...(limitsAnswerOnly ? ['`max_tokens` does not limit reasoning'] : []),
    ...(dialect?.refused?.length
      ? [`chat does not accept ${dialect.refused.map(word => `\`${word}\``).join(', ')}`]
      : []),
    ...(voices?.names ? [`voices ${voices.names.join(', ')}`] : []),
    ...(voices?.standIns ? ['the six standard voice names are mapped to its own voices'] : []),
    ...Object.entries(dialects?.speech ?? {}).flatMap(([format, each]) =>
      each.voices ? [`for ${format} models, set the voices in the channel (\`setting.voices\`)`] : [],
    ),
    ...(transcriptFormats.length > 0 && transcriptFormats.length < TRANSCRIPTS
      ? [`returns transcripts as ${transcriptFormats.join(', ')}; the gateway generates the other formats`]
      : []),
    ...(picturesInside ? ['some models return only image data and no URLs'] : []),
    ...(tasks.length > 0 ? [`image tasks: ${[...new Set(tasks)].join(', ')}`] : []),
    ...(film
      ? [
          film.find
            ? 'the gateway can find unacknowledged video submissions'
            : 'unacknowledged video submissions go to suspense',
        ]
      : []),
    ...(film?.remix ? ['videos can be remixed'] : []),
    ...(formatsOfModel ? ['the format depends on the model name'] : []),
    ...(isKeyError ? ['reports some key errors with another status than 401 or 403'] : []),
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

/** The page docs/providers.md, generated from the provider files. */
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
    ['Provider', 'Address', 'How the key is sent', 'Example of a key', 'Lists models'],
    ...byName.map(each => [
      each.name,
      each.baseUrl ?? 'the channel’s `base_url`',
      authOf(each),
      each.keyHint.replaceAll('|', '\\|').replaceAll('<', '&lt;'),
      each.models ? 'yes' : '',
    ]),
  ]
  const quirks = byName.flatMap(each => {
    const providerQuirks = quirksOf(each)
    return providerQuirks.length === 0 ? [] : [`- **${each.name}**: ${providerQuirks.join('; ')}.`]
  })
  return `# Providers

<!-- Generated from src/providers by \`npm run docs:providers\`; a test fails if it is out of date. -->

This table lists the operations of each provider. The column *chat* has the formats that Sluice uses with the provider, preferred
first. Clients may use any chat format: if the provider offers it, the request passes through, otherwise Sluice translates it. The
column *speech* has the audio formats if the provider offers only some. \`GET /api/channel/types\` returns the same data. Details of
each operation: [operations.md](operations.md), [videos.md](videos.md), [formats.md](formats.md).

${table(offers)}

## Addresses and keys

${table(keys)}

## Differences

${quirks.join('\n')}
`
}
