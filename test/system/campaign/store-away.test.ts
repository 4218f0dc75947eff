import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startSimulator } from '../../../simulator/server.ts'
import { startFleet } from '../../support/fleet.ts'
import { until, verifyThroughSocket } from '../../support/process.ts'
import type { Trouble } from '../../support/proxy.ts'
import { createResources } from '../../support/relay.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const AWAY_MS = isCampaign ? 60_000 : 6_000
/** The use before the outage, from which the gateway learns how much each account needs. */
const BEFORE_MS = isCampaign ? 30_000 : 4_000
const TROUBLES: readonly Trouble[] = isCampaign ? ['refuse', 'hang', 'stall'] : ['refuse']
const NODES = isCampaign ? 3 : 2
/** Units of a request that costs 0.001 USD. */
const COST = 500

/** How often each account sends a request to each node. */
const ACCOUNTS = [
  { name: 'steady', everyMs: 250, quota: 1_000_000_000 },
  { name: 'rare', everyMs: isCampaign ? 9_000 : 1_500, quota: 1_000_000_000 },
  { name: 'unlimited', everyMs: 500, quota: undefined },
] as const

async function outage(t: TestContext, trouble: Trouble): Promise<void> {
  const simulator = await startSimulator()
  t.after(() => simulator.close())
  const fleet = await startFleet(NODES, { SLUICE_WORKERS: '1' })
  t.after(() => fleet.close())
  const [first] = fleet.members
  assert.ok(first)
  const { must, serve, newToken } = createResources(first.server.api, simulator.url)
  const { model } = await serve('sim-words-2', {}, { per_call: 0.001 })
  const tokens = await Promise.all(
    ACCOUNTS.map(({ name, quota }) =>
      newToken({ name, ...(quota === undefined ? { unlimited_quota: true } : { remain_quota: quota }) }),
    ),
  )
  const failures: string[] = []
  const answered = ACCOUNTS.map(() => 0)
  let isOver = false

  async function use(account: number, member: (typeof fleet.members)[number], number: number): Promise<void> {
    while (!isOver) {
      const body = { model, messages: [{ role: 'user', content: 'Hi' }] }
      const token = tokens[account]?.key ?? ''
      const { status, text } = await member.server.api('POST', '/v1/chat/completions', body, {
        token,
        expectedRefusal: 'ledger_unavailable',
      })
      if (status === 200) answered[account] = (answered[account] ?? 0) + 1
      else failures.push(`${ACCOUNTS[account]?.name} on node ${number}: ${status} ${text}`)
      await delay(ACCOUNTS[account]?.everyMs)
    }
  }
  const traffic = fleet.members.flatMap((member, number) =>
    ACCOUNTS.map((_, account) => use(account, member, number)),
  )
  await delay(BEFORE_MS)
  for (const { proxy } of fleet.members) proxy.set(trouble)
  const back = delay(AWAY_MS)
  const refused = await first.server.api('GET', '/api/token/')
  assert.equal(refused.status, 503, refused.text)
  assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/)
  await back
  for (const { proxy } of fleet.members) proxy.set('pass')
  await delay(1_000)
  isOver = true
  await Promise.all(traffic)
  assert.deepEqual(failures, [])
  await until('every request to be in the books', async () => {
    for (const [index, { id }] of tokens.entries()) {
      const reply = await first.server.api('GET', `/api/token/${id}`)
      if (reply.status !== 200 || reply.headers.has('x-sluice-stale')) return undefined
      const { used_quota } = await must(Promise.resolve(reply))
      if (used_quota !== (answered[index] ?? 0) * COST) return undefined
    }
    return true
  })
  const { ok, lines } = await verifyThroughSocket({ dataDir: first.dataDir })
  assert.ok(ok, lines.join('\n'))
  t.diagnostic(`${trouble} for ${AWAY_MS / 1_000} s: ${answered.join(', ')} answers, none failed`)
}

describe('PostgreSQL that is away from all nodes (docs/reference/money.md: Leases)', () => {
  for (const trouble of TROUBLES)
    it(`is not felt by accounts that were used before: ${trouble}`, t => outage(t, trouble))
})
