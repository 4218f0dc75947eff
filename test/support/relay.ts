import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { NO_CHANNEL } from '../../src/domain/rejection.ts'
import {
  type Api,
  type EngineName,
  type HttpServerName,
  type Reply,
  startGateway,
  suiteResource,
} from './gateway.ts'
import { until, WAIT_MS } from './wait.ts'

/** The name that test files still import. */

/** Nanodollars per token of every model that `serve` creates. */
export const INPUT_NANOS = 1_000
export const OUTPUT_NANOS = 2_000
const NANOS_PER_UNIT = 2_000

/** The simulator shows only its last four characters. */
export const PROVIDER_KEY = 'provider-canary-key-7351'

/** Rows are written every 200 ms; each look at them takes some CPU time. */
const FIRST_PAUSE_MS = 20
const MAX_PAUSE_MS = 80

type Fields = Readonly<Record<string, unknown>>

/** Creates what requests need through the management API: channels to the simulator, prices, tokens. */
export function createResources(api: Api, upstream: string) {
  let modelCount = 0

  async function must(reply: Promise<Reply>) {
    const { status, body, text } = await reply
    assert.equal(status, 200, text)
    return body.data
  }

  async function addChannel(fields: Fields, mode = 'single'): Promise<number> {
    const channel = { name: 'simulated', type: 1, key: PROVIDER_KEY, base_url: upstream, ...fields }
    return (await must(api('POST', '/api/channel/', { mode, channel }))).id
  }

  /**
   * A separate model that these simulated models serve, a channel for each, in this order. The fields are those of all
   * channels, or of each.
   */
  async function serve(
    sentModels: string | readonly string[],
    fields: Fields | readonly Fields[] = {},
    price: Fields = {},
  ) {
    const each = [fields].flat()
    const model = `case-${++modelCount}`
    const channels: number[] = []
    for (const [index, name] of [sentModels].flat().entries())
      channels.push(
        await addChannel({
          name: `${model}-${index}`,
          models: [model],
          model_mapping: { [model]: name },
          priority: 100 - index,
          ...(each[index] ?? each[0]),
        }),
      )
    const rates = { model, input: INPUT_NANOS / 1000, output: OUTPUT_NANOS / 1000, max_output_tokens: 1000 }
    const { per_call } = price
    await must(
      api('POST', '/api/price/', per_call === undefined ? { ...rates, ...price } : { model, per_call }),
    )
    return { model, channels }
  }

  async function newToken(fields: Fields = {}, accessToken?: string) {
    const body = { name: 'app', remain_quota: 500_000, ...fields }
    const data = await must(
      api('POST', '/api/token/', body, accessToken === undefined ? {} : { token: accessToken }),
    )
    return { id: data.id as number, key: data.key as string }
  }

  return { must, addChannel, serve, newToken }
}

/** A gateway with the simulator, and what a test needs to inject faults and to read the ledger. */
export async function openRelay(
  engine: EngineName,
  env: Readonly<Record<string, string>> = {},
  http?: HttpServerName,
) {
  const gateway = await startGateway({ engine, env, ...(http && { http }) })
  const upstream = (await gateway.simulator()).url
  const resources = createResources(gateway.api, upstream)
  const { must } = resources

  const chat = (key: string | null, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
    gateway.api('POST', '/v1/chat/completions', body, { token: key, headers })

  const seenInAll = async () =>
    ((await (await fetch(`${upstream}/sim/requests`)).json()) as { total: number }).total

  /**
   * The rows of a token's settled requests once there are this many; they are stored within a second of a
   * response. Requests that the gateway rejected are not among them.
   */
  async function rowsOf(tokenId: number, atLeast = 1) {
    const deadline = Date.now() + WAIT_MS
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      const rows = await gateway.db
        .selectFrom('logs')
        .selectAll()
        .where('token_id', '=', tokenId)
        .where('type', 'in', [2, 5])
        .where('channel_id', '<>', NO_CHANNEL)
        .orderBy('id')
        .execute()
      if (rows.length >= atLeast || Date.now() > deadline) {
        assert.ok(rows.length >= atLeast, `${rows.length} rows instead of ${atLeast}`)
        return rows.map(row => ({ ...row, cost: Number(row.cost), other: JSON.parse(row.other) }))
      }
      await delay(pauseMs)
    }
  }

  return {
    gateway,
    upstream,
    api: gateway.api,
    ...resources,
    chat,
    rowsOf,
    /** The one row of a token with a single request. */
    async rowOf(tokenId: number) {
      const rows = await rowsOf(tokenId)
      const [row] = rows
      assert.ok(row)
      assert.equal(rows.length, 1)
      return row
    },
    async usedBy(tokenId: number): Promise<number> {
      return (await must(gateway.api('GET', `/api/token/${tokenId}`))).used_quota
    },
    units: (nanos: number) => Math.ceil(nanos / NANOS_PER_UNIT),
    suspenseOf: (tokenId: number) =>
      gateway.db.selectFrom('suspense').selectAll().where('token_id', '=', tokenId).orderBy('id').execute(),
    set: (settings: Fields) => must(gateway.api('PUT', '/api/setting/', settings)),
    /** How many requests the simulator has received for one of its models. */
    async seen(sentModel: string): Promise<{ key_hint: string; headers: Record<string, string> }[]> {
      const report = (await (await fetch(`${upstream}/sim/requests`)).json()) as {
        last: { model: string; key_hint: string; headers: Record<string, string> }[]
      }
      return report.last.filter(({ model }) => model === sentModel)
    },
    seenInAll,
    /** Waits until the provider has received this many requests in total: those were admitted before. */
    untilSeen: (count: number) =>
      until('the provider to be asked', async () => ((await seenInAll()) >= count ? true : undefined)),
  }
}

export type Relay = Awaited<ReturnType<typeof openRelay>>

/** The relay of a suite. */
export const suiteRelay = (...options: Parameters<typeof openRelay>): Relay =>
  suiteResource(
    () => openRelay(...options),
    relay => relay.gateway.close(),
  )
