import { readFileSync } from 'node:fs'
import type { CountLine } from '../../simulator/count.ts'
import { usdText } from '../../src/domain/money.ts'
import { NO_CHANNEL } from '../../src/domain/rejection.ts'
import type { Store } from '../../src/store/engine/store.ts'
import { PROMPT, type RequestOutcome } from './random-requests.ts'
import { INPUT_NANOS, OUTPUT_NANOS } from './relay.ts'

/** The records of the three parties that must agree: clients, provider, ledger. */
export type Accounts = Awaited<ReturnType<typeof readAccounts>>

export const priceOf = (line: CountLine): number =>
  line.prompt_tokens * INPUT_NANOS + line.completion_tokens * OUTPUT_NANOS

export const readCount = (countFile: string): CountLine[] =>
  readFileSync(countFile, 'utf8')
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as CountLine)

/**
 * The longest word of the simulator's responses, with its space; the gateway counts four bytes as a token.
 */
const MOST_TOKENS_A_WORD = 3

const LOG_TYPES = [2, 5]

export async function readAccounts({ db }: Store, outcomes: readonly RequestOutcome[], countFile: string) {
  const entries = await db.selectFrom('entries').selectAll().where('kind', '=', 'settle').execute()
  const allLogs = await db.selectFrom('logs').selectAll().where('type', 'in', LOG_TYPES).execute()
  const [rejectedLogs = [], logs = []] = [true, false].map(isRejected =>
    allLogs.filter(({ channel_id }) => (channel_id === NO_CHANNEL) === isRejected),
  )
  const doubts = await db.selectFrom('suspense').selectAll().execute()
  const nameOf = ({ request_id }: { request_id: string | null }) => request_id ?? ''
  const lines = readCount(countFile)
  return {
    told: outcomes,
    entries,
    logs,
    rejectedLogs,
    doubts,
    lines,
    entriesOf: Map.groupBy(entries, nameOf),
    logsOf: Map.groupBy(logs, nameOf),
    doubtsOf: Map.groupBy(doubts, nameOf),
    linesOf: Map.groupBy(lines, line => line.client_request_id ?? ''),
    accounts: await db.selectFrom('accounts').selectAll().execute(),
    leases: await db.selectFrom('leases').selectAll().where('amount', '<>', 0).execute(),
    rollups: await db.selectFrom('rollups').selectAll().execute(),
    channels: await db.selectFrom('channels').select(['id', 'used']).execute(),
  }
}

const sum = (amounts: readonly number[]) => amounts.reduce((total, each) => total + each, 0)

/** Sums of rows, grouped by some of their fields. */
const sumsBy = <Row>(rows: readonly Row[], name: (row: Row) => string, amount: (row: Row) => number) =>
  new Map([...Map.groupBy(rows, name)].map(([key, each]) => [key, sum(each.map(amount))]))

function differences(what: string, one: Map<string, number>, other: Map<string, number>): string[] {
  return [...new Set([...one.keys(), ...other.keys()])]
    .filter(key => (one.get(key) ?? 0) !== (other.get(key) ?? 0))
    .map(key => `${what} ${key}: ${one.get(key) ?? 0} and ${other.get(key) ?? 0}`)
}

const sourceOf = ({ other }: { other: string }): string => JSON.parse(other).source

/**
 * docs/reference/money.md: Invariants of the books. Each invariant is a sentence and the requests that
 * violate it. The invariants hold whenever no request runs, however often and wherever the gateway was killed
 * before.
 */
export const LAWS: Readonly<Record<string, (accounts: Accounts) => string[]>> = {
  'an answer received whole is paid once, at the price of what its provider counted': ({
    told: outcomes,
    entriesOf,
    linesOf,
  }) =>
    outcomes
      .filter(({ ending }) => ending === 'whole')
      .flatMap(({ requestId = '', isCounted, shape, cost }) => {
        const [entry, ...more] = entriesOf.get(requestId) ?? []
        if (!entry || more.length > 0)
          return [`${requestId} (${shape}): ${more.length + (entry ? 1 : 0)} entries`]
        const prices = (linesOf.get(requestId) ?? []).filter(({ finished }) => finished).map(priceOf)
        const isRight = isCounted ? entry.amount > 0 && prices.length > 0 : prices.includes(entry.amount)
        const isAsReported = cost === undefined || cost === usdText(entry.amount)
        return isRight && isAsReported
          ? []
          : [`${requestId} (${shape}): ${entry.amount}, not ${prices}, told ${cost}`]
      }),

  'no request has two entries or two usage rows, and each has both with the same cost': ({
    entriesOf,
    logsOf,
  }) =>
    [...new Set([...entriesOf.keys(), ...logsOf.keys()])].filter(id => {
      const [entry, ...moreEntries] = entriesOf.get(id) ?? []
      const [log, ...moreLogs] = logsOf.get(id) ?? []
      const isOne = entry && log && moreEntries.length === 0 && moreLogs.length === 0
      return (
        !isOne ||
        entry.amount !== log.cost ||
        entry.user_id !== log.user_id ||
        entry.token_id !== log.token_id
      )
    }),

  'whatever a provider counted is in the books, paid or in doubt': ({ linesOf, entriesOf, doubtsOf }) =>
    [...linesOf].flatMap(([id, lines]) => {
      const [entry] = entriesOf.get(id) ?? []
      if (!entry) return [`${id}: ${JSON.stringify(lines)} and no entry`]
      const unpaid = lines.filter(line => priceOf(line) > 0).length - (entry.amount > 0 ? 1 : 0)
      const doubted = (doubtsOf.get(id) ?? []).length
      return doubted >= unpaid
        ? []
        : [`${id}: ${unpaid} unpaid, ${doubted} in doubt: ${JSON.stringify(lines)}`]
    }),

  'nobody pays for what no provider counted, or more than that': ({ entries, linesOf, logsOf }) =>
    entries
      .filter(({ amount }) => amount > 0)
      .flatMap(({ request_id, amount }) => {
        const id = request_id ?? ''
        const lines = (linesOf.get(id) ?? []).filter(line => priceOf(line) > 0)
        const [log] = logsOf.get(id) ?? []
        const source = log ? sourceOf(log) : 'nowhere'
        const words = Math.max(0, ...lines.map(line => line.completion_tokens))
        const most = PROMPT.length * INPUT_NANOS + words * MOST_TOKENS_A_WORD * OUTPUT_NANOS
        const isRight =
          lines.length > 0 &&
          (source === 'provider' ? lines.some(line => priceOf(line) === amount) : amount <= most)
        return isRight ? [] : [`${id}: ${amount} by ${source} for ${JSON.stringify(lines)}`]
      }),

  'whoever was refused pays nothing': ({ told: outcomes, entriesOf }) =>
    outcomes
      .filter(
        ({ ending, requestId }) =>
          ending === 'refused' && entriesOf.get(requestId ?? '')?.some(e => e.amount > 0),
      )
      .map(({ requestId }) => String(requestId)),

  'nothing is sent for somebody who cannot pay': ({ told: outcomes, entriesOf, linesOf }) =>
    outcomes
      .filter(({ code }) => code === 'insufficient_quota')
      .filter(({ requestId = '' }) => entriesOf.has(requestId) || linesOf.has(requestId))
      .map(({ requestId }) => String(requestId)),

  'nobody who can pay is refused for money': ({ told: outcomes }) =>
    outcomes
      .filter(({ code, isPoor }) => code === 'insufficient_quota' && !isPoor)
      .map(({ requestId }) => String(requestId)),

  'no channel is doubted twice for one request': ({ doubts }) =>
    [
      ...sumsBy(
        doubts,
        each => `${each.request_id} ${each.channel_id}`,
        () => 1,
      ),
    ]
      .filter(([, count]) => count > 1)
      .map(([name]) => name),

  'every doubt belongs to a request with an entry': ({ doubts, entriesOf }) =>
    doubts.filter(({ request_id }) => !entriesOf.has(request_id)).map(({ request_id }) => request_id),

  'no account spends more than it was credited': ({ accounts }) =>
    accounts
      .filter(each => each.held < 0 || (each.unlimited === 0 && each.posted + each.held > each.credited))
      .map(each => JSON.stringify(each)),

  'nothing is held or leased when nothing runs': ({ accounts, leases }) => [
    ...accounts.filter(({ held: heldAmount }) => heldAmount !== 0).map(each => JSON.stringify(each)),
    ...leases.map(each => JSON.stringify(each)),
  ],

  'what an account has spent is the sum of its entries, and so is the count of its requests': ({
    accounts,
    entries,
  }) => {
    const payers = entries.flatMap(entry => [
      { name: `user:${entry.user_id}`, amount: entry.amount },
      ...(entry.token_id === null ? [] : [{ name: `token:${entry.token_id}`, amount: entry.amount }]),
    ])
    const nameOf = (each: { kind: string; owner_id: number }) => `${each.kind}:${each.owner_id}`
    return [
      ...differences(
        'spent of',
        sumsBy(accounts, nameOf, each => each.posted),
        sumsBy(
          payers,
          each => each.name,
          each => each.amount,
        ),
      ),
      ...differences(
        'requests of',
        sumsBy(accounts, nameOf, each => each.request_count),
        sumsBy(
          payers,
          each => each.name,
          () => 1,
        ),
      ),
    ]
  },

  'what a channel has been used is the sum of its entries': ({ channels, entries }) =>
    differences(
      'channel',
      sumsBy(
        channels,
        ({ id }) => String(id),
        ({ used }) => used,
      ),
      sumsBy(
        entries,
        each => String(each.channel_id),
        each => each.amount,
      ),
    ),

  'the sums of quarter hours are those of the usage rows, including rejected requests': ({
    rollups,
    logs: settledLogs,
    rejectedLogs,
  }) => {
    const logs = [...settledLogs, ...rejectedLogs]
    const ofRollup = (each: Accounts['rollups'][number]) =>
      `${each.user_id} ${each.token_id} ${each.channel_id} ${each.model}`
    const ofLog = (each: Accounts['logs'][number]) =>
      `${each.user_id} ${each.token_id} ${each.channel_id} ${each.model_name}`
    return [
      ...differences(
        'cost',
        sumsBy(rollups, ofRollup, each => each.cost),
        sumsBy(logs, ofLog, each => each.cost),
      ),
      ...differences(
        'requests',
        sumsBy(rollups, ofRollup, each => each.requests),
        sumsBy(logs, ofLog, each => each.requests),
      ),
      ...differences(
        'failures',
        sumsBy(rollups, ofRollup, each => each.failures),
        sumsBy(logs, ofLog, ({ type, requests }) => (type === 5 ? requests : 0)),
      ),
      ...differences(
        'tokens',
        sumsBy(rollups, ofRollup, each => each.prompt_tokens + each.completion_tokens),
        sumsBy(logs, ofLog, each => each.prompt_tokens + each.completion_tokens),
      ),
    ]
  },
}

/** Every violated invariant, as text. */
export const breaches = (accounts: Accounts): string[] =>
  Object.entries(LAWS).flatMap(([law, judge]) => judge(accounts).map(each => `${law}: ${each}`))
