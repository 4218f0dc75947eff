import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { NANO_DIGITS, scaled } from '../../src/domain/money.ts'
import { type HostileClient, openHostileClient, startTakingProvider } from '../support/hostile-client.ts'
import {
  fieldsOf,
  type GoodRequest,
  hostileForm,
  hostileRequest,
  MODEL,
} from '../support/hostile-requests.ts'
import { wavOf } from '../support/media.ts'
import { READERS, readTree, type Tree, understood } from '../support/name-readers.ts'
import { until } from '../support/process.ts'
import { fc } from '../support/properties.ts'
import type { Replay, Seen } from '../support/replay.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const REQUESTS = isCampaign ? 10_000 : 300
const FORMS_IN = 10
const SEED = isCampaign ? undefined : 7_711
const LANES = 4

const SENT_MODEL = 'seen-as'
const PRICE = { input: 1, output: 2, image: 0.01, per_second: 0.001 }
/** Channel types by the format of their requests. */
const KINDS = { custom: 8, openai: 1, anthropic: 14, gemini: 24 } as const

const kindAt = (path: string): keyof typeof KINDS => {
  if (/v1beta/.test(path)) return 'gemini'
  if (/messages/.test(path)) return 'anthropic'
  return /responses/.test(path) ? 'openai' : 'custom'
}

type Reply = { readonly status: number; readonly headers: Headers; readonly text: string }

/** The members of a sent body as they are written: of JSON, or of a form. */
async function treeOf({ headers, text }: Seen): Promise<Tree> {
  const type = headers['content-type'] ?? ''
  if (type.includes('json')) return readTree(text)
  const form = await new Response(text, { headers: { 'content-type': type } }).formData()
  return { members: [...form].map(([name, value]) => [name, typeof value === 'string' ? value : 'a file']) }
}

describe('hostile requests of every kind', () => {
  let client: HostileClient
  let providers: Replay[]
  let token: { readonly id: number; readonly key: string }
  /** The cost that each response reported, by its request. */
  const reportedCosts = new Map<string, number>()
  const counts = new Map<string, number>()
  const count = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1)

  before(async () => {
    client = await openHostileClient()
    providers = await Promise.all(Array.from({ length: LANES }, startTakingProvider))
    for (const [lane, provider] of providers.entries())
      for (const [kind, type] of Object.entries(KINDS)) {
        const model = `${kind}-${lane}`
        await client.addChannel({
          name: model,
          type,
          base_url: provider.url,
          models: [model],
          model_mapping: { [model]: SENT_MODEL },
        })
        await client.must(client.gateway.api('POST', '/api/price/', { model, ...PRICE }))
      }
    await client.must(
      client.gateway.api('POST', '/api/price/', { model: 'dear', input: 1_000, output: 2_000 }),
    )
    const models = providers.flatMap((_, lane) => Object.keys(KINDS).map(kind => `${kind}-${lane}`))
    token = await client.newToken({ unlimited_quota: true, model_limits_enabled: true, models })
  })
  after(async () => {
    for (const provider of providers) provider.close()
    await client.close()
  })

  /** Either nothing was sent, or every server reads the same from it, and no other model. */
  async function judge(
    good: GoodRequest,
    reply: Reply,
    sentRequest: Seen | undefined,
    what: string,
  ): Promise<void> {
    const { path } = good
    assert.ok(reply.status < 500, `${path} ${what}: ${reply.status} ${reply.text}`)
    count(reply.status === 200 ? 'taken' : 'refused')
    if (reply.status !== 200) {
      assert.equal(sentRequest, undefined, `${path} ${what}: refused with ${reply.text}, and yet sent`)
      return
    }
    const cost = reply.headers.get('x-sluice-cost')
    if (cost !== null)
      reportedCosts.set(reply.headers.get('x-request-id') ?? '', scaled(cost, NANO_DIGITS) ?? -1)
    // Token counts call no provider.
    if (sentRequest === undefined) return
    const tree = await treeOf(sentRequest)
    const readings = Object.values(READERS).map(
      reader => understood(reader, tree, fieldsOf(good)) as Readonly<Record<string, unknown>>,
    )
    for (const reading of readings) {
      assert.deepEqual(reading, readings[0], `${path} ${what}: servers differ on ${sentRequest.text}`)
      if (kindAt(path) !== 'gemini') assert.equal(reading.model, SENT_MODEL, `${path} ${what}`)
    }
  }

  /** One request at a time for each provider, so that the body the provider receives belongs to it. */
  async function inLanes<Case>(
    cases: readonly Case[],
    send: (each: Case, lane: number) => Promise<Reply>,
    about: (each: Case) => readonly [GoodRequest, string],
  ) {
    let next = 0
    await Promise.all(
      providers.map(async ({ seen: sentRequests }, lane) => {
        for (let each = cases[next++]; each !== undefined; each = cases[next++]) {
          sentRequests.length = 0
          const reply = await send(each, lane)
          const [good, what] = about(each)
          await judge(
            good,
            reply,
            sentRequests.find(({ method }) => method === 'POST'),
            what,
          )
        }
      }),
    )
  }

  const replaceModel = (text: string, path: string, lane: number) =>
    text.replaceAll(MODEL, `${kindAt(path)}-${lane}`)

  it('are refused, or read by every server as they were priced', async () => {
    const drawn = fc.sample(hostileRequest, { numRuns: REQUESTS, ...(SEED && { seed: SEED }) })
    // The provider does not stream.
    const cases = drawn.filter(({ text }) => JSON.parse(text).stream !== true)
    await inLanes(
      cases,
      ({ good: { path }, text }, lane) =>
        client.postText(replaceModel(path, path, lane), token.key, replaceModel(text, path, lane)),
      ({ good, text }) => [good, text],
    )
  })

  it('are refused or read alike as forms too', async () => {
    const drawn = fc.sample(hostileForm, { numRuns: REQUESTS / FORMS_IN, ...(SEED && { seed: SEED }) })
    const cases = drawn.filter(
      ({ fields }) => !fields.some(([name, value]) => name === 'stream' && value === 'true'),
    )
    await inLanes(
      cases,
      ({ good: { path }, fields }, lane) => {
        const form = new FormData()
        for (const [name, value] of fields) form.append(name, replaceModel(value, path, lane))
        if (/audio/.test(path)) form.append('file', wavOf(1))
        if (/edits/.test(path)) form.append('image', new File([Buffer.from('a picture')], 'a.png'))
        return client.post(path, token.key, form)
      },
      ({ good, fields }) => [good, JSON.stringify(fields)],
    )
  })

  it('leave a ledger in which each response is charged once, at its price', async () => {
    const rowsNow = () =>
      client.gateway.db
        .selectFrom('logs')
        .select(['request_id', 'cost'])
        .where('token_id', '=', token.id)
        .where('type', '=', 2)
        .execute()
    const rows = await until('the last row', async () => {
      const currentRows = await rowsNow()
      const ids = new Set(currentRows.map(({ request_id }) => request_id))
      return [...reportedCosts.keys()].every(id => ids.has(id)) ? currentRows : undefined
    })
    const booked = new Map(rows.map(({ request_id, cost }) => [request_id, Number(cost)]))
    assert.equal(booked.size, rows.length, 'each request has one row')
    for (const [id, cost] of reportedCosts) assert.equal(booked.get(id), cost, id)
    assert.ok((counts.get('taken') ?? 0) > REQUESTS / 20, JSON.stringify(Object.fromEntries(counts)))
    assert.ok((counts.get('refused') ?? 0) > REQUESTS / 20)
    console.log(
      `${JSON.stringify(Object.fromEntries(counts))} of ${REQUESTS} requests and ${REQUESTS / FORMS_IN} forms`,
    )
  })
})
