import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ParseArgsOptionsConfig } from 'node:util'
import type { CanaryResult, CanarySummary, ShadowResult } from '../domain/canary-command.ts'
import {
  type CommandDefinition,
  type CommandOutput,
  DATA,
  DATA_HELP,
  EXIT,
  JSON_HELP,
  type OptionValues,
  show,
  text,
} from './command-line.ts'
import type { Operations } from './operations.ts'

type CanaryOperation = 'listCanaries' | 'startCanary' | 'showCanary' | 'updateCanary' | 'actOnCanary'

/** What these commands need of the command line. */
type CanaryCliDeps = {
  operate<Name extends CanaryOperation>(
    name: Name,
    input: Parameters<Operations[Name]>[0],
    dataDir: string | undefined,
  ): Promise<Awaited<ReturnType<Operations[Name]>>>
  print(line: string): void
  printError(line: string): void
}

type CanaryCommand = CommandDefinition<CanaryCliDeps>

const COMMON_HELP = [JSON_HELP, DATA_HELP]
const LISTED = 500

/** A wrong use of the command line. */
class UsageError extends Error {}

function idIn(word: string | undefined): number {
  if (word === undefined) throw new UsageError('ID is missing')
  if (!/^[1-9]\d{0,15}$/.test(word)) throw new UsageError('ID must be the number of a canary')
  return Number(word)
}

function numberOption(values: OptionValues, name: string): number | undefined {
  const value = text(values[name])
  if (value === undefined) return undefined
  if (value.trim() === '' || !Number.isFinite(Number(value)))
    throw new UsageError(`--${name} must be a number`)
  return Number(value)
}

function tokensOption(values: OptionValues): { token_ids?: number[] | null } {
  if (values['all-tokens'] === true) return { token_ids: null }
  const ids = (values.token ?? []) as readonly string[]
  const wrong = ids.find(id => !/^[1-9]\d{0,15}$/.test(id))
  if (wrong !== undefined) throw new UsageError('--token must be the ID of a token')
  return ids.length === 0 ? {} : { token_ids: ids.map(Number) }
}

/** The change: JSON in the argument, or in a file after `@`. */
function changesIn(value: string | undefined): unknown {
  if (value === undefined) throw new UsageError('--set JSON is missing')
  const json = value.startsWith('@') ? readFileSync(resolve(value.slice(1)), 'utf8') : value
  try {
    return JSON.parse(json)
  } catch {
    throw new UsageError('--set must be a JSON object, or @FILE with one')
  }
}

/** Leaves out what was not given, because null has a meaning. */
const presentFields = (fields: object) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

const participationOf = ({ kind, share, split_by, token_ids, round }: CanarySummary) =>
  kind === 'price'
    ? 'shadow price'
    : `${share}% by ${split_by}, ${token_ids === null ? 'all tokens' : `tokens ${token_ids.join(', ')}`}, round ${round}`

const headline = (canary: CanarySummary) =>
  `canary ${canary.id}  ${canary.kind} "${canary.name}"  ${canary.state}  ${participationOf(canary)}${canary.note && `  # ${canary.note}`}`

/** A shadow price that lacks a field of the price removes it. */
const valueOrNone = (value: unknown) => (value === undefined ? 'none' : JSON.stringify(value))

const fieldLines = ({ fields, drift }: CanarySummary) => [
  ...fields.map(({ path, before, after }) => `  ${path}: ${valueOrNone(before)} -> ${valueOrNone(after)}`),
  ...(drift.length > 0 ? [`  changed otherwise since the start: ${drift.join(', ')}`] : []),
]

const percent = (rate: number | null) => (rate === null ? '-' : `${(rate * 100).toFixed(2)} %`)
const dollars = (usd: string | null) => (usd === null ? '-' : `$${usd}`)
const times = (of: { p50: number; p95: number } | null) => (of === null ? '-' : `${of.p50}/${of.p95} ms`)

function comparisonLines({ comparison }: CanaryResult): string[] {
  if (!comparison) return []
  const { canary, baseline } = comparison
  const row = (name: string, cell: (side: typeof canary) => string) =>
    `  ${name.padEnd(26)}${cell(canary).padStart(20)}${cell(baseline).padStart(20)}`
  return [
    `  ${''.padEnd(26)}${'canary'.padStart(20)}${'baseline'.padStart(20)}`,
    row('requests', side => String(side.requests)),
    row('error rate', side => percent(side.error_rate)),
    row('latency p50/p95', side => times(side.latency_ms)),
    row('first token p50/p95', side => times(side.first_token_ms)),
    row('cost per request', side => dollars(side.cost_per_request)),
  ]
}

const shadowLine = (name: string, { requests, cost, shadow_cost, difference }: ShadowResult) =>
  `  ${name}: ${requests} requests, charged $${cost}, shadow $${shadow_cost}, difference $${difference}`

const summaryLines = (canary: CanarySummary) => [headline(canary), ...fieldLines(canary)]

function command(
  definition: Omit<CanaryCommand, 'run'>,
  work: (deps: CanaryCliDeps, values: OptionValues, positionals: readonly string[]) => Promise<CommandOutput>,
): CanaryCommand {
  return {
    ...definition,
    async run(deps, values, positionals) {
      try {
        show(deps, values, await work(deps, values, positionals))
        return EXIT.ok
      } catch (error) {
        if (!(error instanceof UsageError)) throw error
        deps.printError(`sluice: ${error.message}\n${definition.usage}`)
        return EXIT.usage
      }
    },
  }
}

type Action = Parameters<Operations['actOnCanary']>[0]['action']

/** The commands that only name a canary, perhaps with a reason. */
const acting = (
  action: Action,
  summary: string,
  more: { options?: ParseArgsOptionsConfig; help?: string[] } = {},
) =>
  command(
    {
      summary,
      usage: `sluice canary ${action} ID${Object.keys(more.options ?? {})
        .map(name => (name === 'force' ? ' [--force]' : ` [--${name} TEXT]`))
        .join('')} [--json] [--data DIR]`,
      options: { ...more.options, ...DATA },
      help: [
        'ID              the number of the canary, from sluice canary list',
        ...(more.help ?? []),
        ...COMMON_HELP,
        `Example: sluice canary ${action} 3`,
        'It is in effect at once on every machine. Exit 0: done. Exit 1: there is no such canary, or it has ended.',
      ],
      positionals: 1,
    },
    async (deps, values, [word]) => {
      const id = idIn(word)
      const body = presentFields({
        reason: text(values.reason),
        force: values.force === true ? true : undefined,
      })
      const canary = await deps.operate('actOnCanary', { id, action, body }, text(values.data))
      return { json: canary, lines: [headline(canary)] }
    },
  )

const REASON = { reason: { type: 'string' } } as const
const WHO_HELP = [
  '--share N       percent of the requests that try it, 0.1 to 100 (default: 100)',
  '--split-by request|token  divide single requests (default), or whole tokens',
  '--token ID      only requests of this token take part; may be repeated',
]
const WHO = {
  share: { type: 'string' },
  'split-by': { type: 'string' },
  token: { type: 'string', multiple: true },
} as const

/** Every command of canaries, by its name (docs/operating/canary.md). */
export const canaryCommands: Readonly<Record<string, CanaryCommand>> = {
  'canary list': command(
    {
      summary: 'list canaries and shadow prices that are open, or all',
      usage: 'sluice canary list [--all] [--json] [--data DIR]',
      options: { all: { type: 'boolean' }, ...DATA },
      help: [
        '--all           also those that were promoted or dropped',
        ...COMMON_HELP,
        'Example: sluice canary list',
        'Exit 0: listed.',
      ],
      positionals: 0,
    },
    async (deps, values) => {
      const state = values.all === true ? undefined : ('open' as const)
      const canaries = await deps.operate('listCanaries', { state, limit: LISTED }, text(values.data))
      return { json: canaries, lines: canaries.length === 0 ? ['No canaries.'] : canaries.map(headline) }
    },
  ),
  'canary start': command(
    {
      summary: 'try a change of a channel or alias on a part of the requests, or compute a shadow price',
      usage:
        'sluice canary start --channel ID|--alias NAME|--price MODEL --set JSON|@FILE [--share N] [--split-by request|token] [--token ID]… [--note TEXT] [--json] [--data DIR]',
      options: {
        channel: { type: 'string' },
        alias: { type: 'string' },
        price: { type: 'string' },
        set: { type: 'string' },
        note: { type: 'string' },
        ...WHO,
        ...DATA,
      },
      help: [
        '--channel ID    try a change of this channel',
        '--alias NAME    try a change of this alias',
        '--price MODEL   compute this price beside the real one; it is never charged',
        '--set JSON      the changed fields, as the API names them; @FILE reads them from a file',
        ...WHO_HELP,
        '--note TEXT     why',
        ...COMMON_HELP,
        'Example: sluice canary start --alias fast --set \'{"target": "gpt-5-mini"}\' --share 5',
        'Exit 0: started, and in effect on every machine. Exit 1: the change is invalid; nothing was started.',
      ],
      positionals: 0,
    },
    async (deps, values) => {
      const kinds = (['channel', 'alias', 'price'] as const).filter(kind => values[kind] !== undefined)
      const [kind] = kinds
      if (kind === undefined || kinds.length > 1)
        throw new UsageError('exactly one of --channel, --alias and --price is needed')
      const body = presentFields({
        kind,
        channel_id: numberOption(values, 'channel'),
        model: text(values.price),
        changes: changesIn(text(values.set)),
        share: numberOption(values, 'share'),
        split_by: text(values['split-by']),
        note: text(values.note),
        ...tokensOption(values),
      })
      const input = { body, alias: text(values.alias) }
      const canary = await deps.operate('startCanary', input, text(values.data))
      return { json: canary, lines: summaryLines(canary) }
    },
  ),
  'canary show': command(
    {
      summary: 'compare the requests that tried a change with those that did not',
      usage: 'sluice canary show ID [--by day|user|token] [--json] [--data DIR]',
      options: { by: { type: 'string' }, ...DATA },
      help: [
        'ID              the number of the canary, from sluice canary list',
        '--by day|user|token  of a shadow price: also its sums by day, user or token',
        ...COMMON_HELP,
        'Example: sluice canary show 3',
        'Requests of the last second may be missing. Exit 0: printed. Exit 1: there is no such canary.',
      ],
      positionals: 1,
    },
    async (deps, values, [word]) => {
      const input = { id: idIn(word), group: text(values.by) }
      const canary = await deps.operate('showCanary', input, text(values.data))
      return {
        json: canary,
        lines: [
          ...summaryLines(canary),
          ...comparisonLines(canary),
          ...(canary.shadow ? [shadowLine('total', canary.shadow)] : []),
          ...(canary.report ?? []).map(row => shadowLine(row.name, row)),
        ],
      }
    },
  ),
  'canary set': command(
    {
      summary: 'change who takes part in a canary, which begins a new round',
      usage:
        'sluice canary set ID [--share N] [--split-by request|token] [--token ID]… [--all-tokens] [--note TEXT] [--json] [--data DIR]',
      options: { ...WHO, 'all-tokens': { type: 'boolean' }, note: { type: 'string' }, ...DATA },
      help: [
        'ID              the number of the canary, from sluice canary list',
        ...WHO_HELP,
        '--all-tokens    requests of all tokens take part',
        '--note TEXT     why',
        ...COMMON_HELP,
        'Example: sluice canary set 3 --all-tokens --share 10',
        'Exit 0: changed. Exit 1: there is no such canary, or it has ended.',
      ],
      positionals: 1,
    },
    async (deps, values, [word]) => {
      const body = presentFields({
        id: idIn(word),
        share: numberOption(values, 'share'),
        split_by: text(values['split-by']),
        note: text(values.note),
        ...tokensOption(values),
      })
      const canary = await deps.operate('updateCanary', { body }, text(values.data))
      return { json: canary, lines: summaryLines(canary) }
    },
  ),
  'canary pause': acting('pause', 'pause a canary: no request tries the change'),
  'canary resume': acting('resume', 'resume a paused canary'),
  'canary promote': acting('promote', 'make the change of a canary for all requests, as a revision', {
    options: { ...REASON, force: { type: 'boolean' } },
    help: [
      '--reason TEXT   the reason that the revision gets',
      '--force         also if the fields were changed otherwise since the start',
    ],
  }),
  'canary drop': acting('drop', 'end a canary without making the change', {
    options: REASON,
    help: ['--reason TEXT   why'],
  }),
}
