import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { intervalStarts } from '../../src/domain/calendar.ts'
import { insertLog } from '../../src/store/usage/logs.ts'
import { ENGINES } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { type Relay, suiteRelay } from '../support/relay.ts'

const iso = (times: readonly number[]) => times.map(time => new Date(time * 1000).toISOString().slice(0, 16))
const at = (text: string) => Date.parse(`${text}Z`) / 1000

describe('the intervals of a chart', () => {
  it('are whole days of a time zone, also across a clock change', () => {
    assert.deepEqual(
      iso(intervalStarts(at('2026-03-28T00:00'), at('2026-03-31T00:00'), 86_400, 'Europe/Berlin')),
      ['2026-03-27T23:00', '2026-03-28T23:00', '2026-03-29T22:00', '2026-03-30T22:00'],
    )
    assert.deepEqual(
      iso(intervalStarts(at('2026-10-31T12:00'), at('2026-11-03T00:00'), 86_400, 'America/New_York')),
      ['2026-10-31T04:00', '2026-11-01T04:00', '2026-11-02T05:00'],
    )
  })

  it('are hours that start when the zone’s hours do', () => {
    assert.deepEqual(
      iso(intervalStarts(at('2026-05-01T00:00'), at('2026-05-01T02:00'), 3_600, 'Asia/Kolkata')),
      ['2026-04-30T23:30', '2026-05-01T00:30', '2026-05-01T01:30'],
    )
  })
})

for (const engine of ENGINES) {
  describe(`usage figures and health on ${engine} (docs/reference/console.md: Insight)`, () => {
    const relay = suiteRelay(engine)
    let user: Awaited<ReturnType<Relay['gateway']['createUser']>>
    const models: string[] = []
    const range = () => {
      const now = Math.floor(Date.now() / 1000)
      return `from=${now - 7_200}&to=${now + 900}`
    }
    const ask = (path: string, token?: string) =>
      relay.must(relay.api('GET', path, undefined, token === undefined ? {} : { token }))

    before(async () => {
      user = await relay.gateway.createUser({ quota: 1_000_000 })
      for (const [index, count] of [3, 2, 1].entries()) {
        const { model } = await relay.serve('sim-words-4', {}, { per_call: (3 - index) / 100 })
        models.push(model)
        const { key } = await relay.newToken({}, user.accessToken)
        const { key: rootKey, id } = await relay.newToken()
        const body = { model, messages: [{ role: 'user', content: 'hello' }] }
        for (let i = 0; i < count; i++) assert.equal((await relay.chat(key, body)).status, 200)
        assert.equal((await relay.chat(rootKey, body)).status, 200)
        await relay.rowsOf(id, 1)
      }
      await ask('/api/ledger/health')
    })

    it('is summed over time, for all users or for the caller', async () => {
      const all = await ask(`/api/usage/series?${range()}&step=900`)
      assert.equal(all.totals.requests, 9)
      assert.equal(all.totals.cost, '0.2')
      assert.deepEqual(all.previous, {
        requests: 0,
        failures: 0,
        prompt_tokens: 0,
        completion_tokens: 0,
        cost: '0',
      })
      assert.equal(all.series.length, 1)
      assert.equal(all.series[0].requests.length, all.starts.length)
      assert.equal(
        all.series[0].requests.reduce((a: number, b: number) => a + b),
        9,
      )
      const own = await ask(`/api/usage/series?${range()}`, user.accessToken)
      assert.equal(own.totals.requests, 6)
      assert.equal(own.totals.cost, '0.14')
      // A user cannot request the figures of others.
      const spied = await ask(`/api/usage/series?${range()}&user_id=1`, user.accessToken)
      assert.equal(spied.totals.requests, 6)
    })

    it('is grouped with the most expensive groups first, and the rest is summed', async () => {
      const { series, totals } = await ask(
        `/api/usage/series?${range()}&group_by=model&top=2&tz=Asia/Kolkata`,
      )
      assert.deepEqual(
        series.map(({ name }: { name: string }) => name),
        [models[0], models[1], 'other'],
      )
      const sum = series
        .flatMap(({ requests }: { requests: number[] }) => requests)
        .reduce((a: number, b: number) => a + b)
      assert.equal(sum, totals.requests)
      const byUser = await ask(`/api/usage/series?${range()}&group_by=user`)
      assert.deepEqual(
        byUser.series.map(({ name }: { name: string }) => name).sort(),
        ['root', user.username].sort(),
      )
    })

    it('is refused with an explanation if the query is invalid', async () => {
      for (const [query, field] of [
        ['from=10&to=5', 'to'],
        ['from=0&to=90000000&step=900', 'step'],
        ['from=0&to=900&tz=Mars/Base', 'tz'],
        ['to=900', 'from'],
        ['from=0&to=900&top=99', 'top'],
        ['from=0&to=900&group_by=colour', 'group_by'],
      ]) {
        const { status, body } = await relay.api('GET', `/api/usage/series?${query}`)
        assert.equal(status, 400)
        assert.equal(body.errors[0].path, field)
      }
    })

    it('is listed by cost, with the sum of the rest', async () => {
      const top = await ask(`/api/usage/top?${range()}&by=model&limit=2`)
      assert.deepEqual(
        top.rows.map(({ name, requests, cost }: Record<string, unknown>) => [name, requests, cost]),
        [
          [models[0], 4, '0.12'],
          [models[1], 3, '0.06'],
        ],
      )
      assert.equal(top.other.requests, 2)
      assert.equal(top.other.cost, '0.02')
      assert.equal(top.totals.cost, '0.2')
      const own = await ask(`/api/usage/top?${range()}&by=user&user_id=1`, user.accessToken)
      assert.deepEqual(
        own.rows.map(({ name }: { name: string }) => name),
        [user.username],
      )
      assert.equal(own.other, null)
      const { status, body } = await relay.api('GET', '/api/usage/top?from=0&to=900')
      assert.equal(status, 400)
      assert.equal(body.errors[0].path, 'by')
    })

    it('has latencies over time, for all users or for the caller', async () => {
      const took = (created_time: number, use_time_ms: number, user_id: number) => ({
        created_time,
        type: 2,
        user_id,
        use_time_ms,
        // The last request has no time to first byte.
        other: JSON.stringify(use_time_ms === 20 ? {} : { frt: use_time_ms * 2 }),
      })
      const first = Array.from({ length: 20 }, (_, index) => took(1_000_000_000 + index, index + 1, user.id))
      for (const row of [...first, took(1_000_000_900, 7, 1)]) await insertLog(relay.gateway.db, row)
      const question = 'from=999999900&to=1000001700&step=900'
      assert.deepEqual(await ask(`/api/usage/times?${question}`), {
        starts: [999_999_900, 1_000_000_800],
        first_ms: { p50: [20, 14], p95: [38, 14] },
        total_ms: { p50: [10, 7], p95: [19, 7] },
        most: 10_000,
        is_all: true,
      })
      const own = await ask(`/api/usage/times?${question}&user_id=1`, user.accessToken)
      assert.deepEqual(own.total_ms, { p50: [10, null], p95: [19, null] })
      const lately = await ask(`/api/usage/times?${range()}&step=900`)
      assert.ok(lately.total_ms.p95.some((ms: number | null) => ms !== null && ms >= 0))
      await relay.gateway.db.deleteFrom('logs').where('created_time', '<', 1_000_001_000).execute()
      const { status, body } = await relay.api('GET', '/api/usage/times?from=0&to=900000&step=900')
      assert.equal(status, 400)
      assert.equal(body.errors[0].path, 'step')
    })

    it('is listed for every channel', async () => {
      const channels = await ask('/api/channel/health')
      assert.equal(channels.length, 3)
      const [first] = channels
      assert.equal(first.state, 'ready')
      assert.equal(first.requests, 4)
      assert.equal(first.hours.length, 24)
      assert.equal(
        first.hours.reduce((sum: number, { requests }: { requests: number }) => sum + requests, 0),
        4,
      )
    })

    it('is listed for every model; users see their own part', async () => {
      const allModels = await ask('/api/model/')
      const first = allModels.find(({ name }: { name: string }) => name === models[0])
      assert.deepEqual(
        [first.is_alias, first.channels_on, first.channels_all, first.is_priced, first.requests, first.cost],
        [false, 1, 1, true, 4, '0.12'],
      )
      const own = await ask('/api/model/', user.accessToken)
      assert.equal(own.find(({ name }: { name: string }) => name === models[0]).requests, 3)
    })

    it('is one request with its entries, for its owner and administrators', async () => {
      const page = await ask('/api/log/self', user.accessToken)
      const { request_id } = page.items[0]
      const own = await ask(`/api/log/request/${request_id}`, user.accessToken)
      assert.equal(own.rows.length, 1)
      assert.deepEqual(own.entries, [])
      // The lines equal the charge, to the last digit.
      assert.deepEqual(own.costs, [
        {
          lines: [
            {
              kind: 'calls',
              quantity: 1,
              rate: 'per_call',
              price: Number(own.rows[0].cost),
              amount: own.rows[0].cost,
            },
            ...own.costs[0].lines.slice(1),
          ],
          rounding: '0',
          overrun: '0',
        },
      ])
      assert.ok(own.costs[0].lines.slice(1).every(({ amount }: { amount: string }) => amount === '0'))
      const whole = await ask(`/api/log/request/${request_id}`)
      assert.equal(whole.entries.length, 1)
      assert.equal(whole.entries[0].amount, whole.rows[0].cost)
    })

    it('is a log that can be paged to its end, row by row', async () => {
      const requestIds: string[] = []
      let cursor = ''
      do {
        const page = await ask(`/api/log/walk?type=2&limit=2&cursor=${cursor}`)
        requestIds.push(...page.rows.map(({ request_id }: { request_id: string }) => request_id))
        cursor = page.next ?? ''
      } while (cursor !== '')
      assert.equal(requestIds.length, 9)
      assert.equal(new Set(requestIds).size, 9)
      const own = await ask('/api/log/walk?type=2&limit=500', user.accessToken)
      assert.equal(own.rows.length, 6)
      assert.equal(own.next, null)
      assert.equal((await relay.api('GET', '/api/log/walk?cursor=1')).body.errors[0].path, 'cursor')
    })

    it('is a log that can be exported as a file', async () => {
      const csv = await relay.api('GET', '/api/log/export?type=2')
      assert.equal(csv.status, 200)
      assert.match(csv.headers.get('content-type') ?? '', /^text\/csv/)
      const [head, ...rows] = csv.text.trim().split('\n')
      assert.match(head ?? '', /^created_at,request_id,/)
      assert.equal(rows.length, 9)
      const lines = await relay.api('GET', '/api/log/export?format=jsonl&type=2', undefined, {
        token: user.accessToken,
      })
      const parsed = lines.text
        .trim()
        .split('\n')
        .map(line => JSON.parse(line))
      assert.equal(parsed.length, 6)
      assert.ok(parsed.every(row => row.user_id === user.id && row.channel_name === ''))
    })

    it('matches the ledger, entry by entry', async () => {
      const { items, total } = await ask(`/api/ledger/entries?user_id=${user.id}`)
      assert.equal(items.filter(({ kind }: { kind: string }) => kind === 'settle').length, 6)
      assert.equal(total, items.length)
      const health = await ask('/api/ledger/health')
      assert.equal(health.nodes.length, 1)
      assert.deepEqual(health.suspense, { open: 0, amount: '0', oldest: null })
      const own = await ask('/api/ledger/entries?page_size=100')
      assert.equal(own.items.filter(({ kind }: { kind: string }) => kind === 'settle').length, 3)
    })

    it('needs attention if most requests fail, with the most frequent code and its token', async () => {
      const other = await relay.gateway.createUser({ quota: 1_000_000 })
      const office = await relay.newToken(
        { name: 'office only', allow_ips: ['10.1.2.0/24'] },
        other.accessToken,
      )
      const { model } = await relay.serve('sim-words-4')
      const mine = () => ask('/api/attention', other.accessToken)
      assert.deepEqual(await mine(), [])
      const send = () => relay.chat(office.key, { model, messages: [{ role: 'user', content: 'x' }] })
      const failing = async (requests: number) =>
        until('the failed requests to need attention', async () => {
          const [need] = await mine()
          return need?.count === requests ? need : undefined
        })
      await send()
      const one = await failing(1)
      assert.deepEqual([one.kind, one.level, one.name], ['requests_failing', 'error', 'ip_not_allowed'])
      await send()
      const two = await failing(2)
      assert.deepEqual(
        [two.id, two.target, two.detail],
        [
          one.id,
          'code:ip_not_allowed',
          `2 of 2 requests failed or were rejected in the last 24 hours, 2 of them with ip_not_allowed (token "office only" (#${office.id})).`,
        ],
      )
    })

    it('needs attention if a channel is disabled, a model has one channel or no price, or a token is low', async () => {
      const channel = await relay.addChannel({ name: 'lonely', models: ['nobody-prices-this'] })
      const low = await relay.newToken({ name: 'nearly empty', remain_quota: 5_000 }, user.accessToken)
      const cheap = await relay.serve('sim-words-4', {}, { per_call: 0.009 })
      assert.equal(
        (await relay.chat(low.key, { model: cheap.model, messages: [{ role: 'user', content: 'x' }] }))
          .status,
        200,
      )
      await ask(`/api/ledger/health`)
      await relay.gateway.db
        .updateTable('channels')
        .set({ status: 3, status_reason: 'gave up' })
        .where('id', '=', channel)
        .execute()
      const needs = await ask('/api/attention')
      const off = needs.find(({ target }: { target: string }) => target === `channel:${channel}`)
      assert.deepEqual([off.kind, off.level, off.detail], ['channel_disabled', 'error', 'gave up'])
      assert.equal(needs[0].level, 'error')
      assert.ok(
        needs.some(
          ({ kind, names }: { kind: string; names: string[] }) =>
            kind === 'model_single_channel' && names.includes(cheap.model),
        ),
      )
      const own = await ask('/api/attention', user.accessToken)
      assert.deepEqual(
        own.map(({ kind, target }: { kind: string; target: string }) => [kind, target]),
        [['token_low', `token:${low.id}`]],
      )
      await relay.gateway.db.updateTable('channels').set({ status: 1 }).where('id', '=', channel).execute()
      const priced = await ask('/api/attention')
      assert.ok(
        priced.some(
          ({ kind, name }: { kind: string; name: string }) =>
            kind === 'model_unpriced' && name === 'nobody-prices-this',
        ),
      )
    })

    it('shares one item between models with the same need', async () => {
      const model = ['first', 'second'].map(name => `unpriced-${engine}-${name}`)
      await relay.addChannel({ name: 'two models', models: model })
      const need = (await ask('/api/attention')).find(({ names }: { names: string[] }) =>
        model.every(name => names.includes(name)),
      )
      assert.deepEqual([need.kind, need.target], ['model_unpriced', 'models'])
      assert.equal(need.name, String(need.count))
      assert.ok(need.count >= 2)
    })

    it('hides a dismissed need from its user until its cause changes', async () => {
      const channel = await relay.addChannel({ name: 'dismissed', models: ['sim-words-4'] })
      const disable = (reason: string) =>
        relay.gateway.db
          .updateTable('channels')
          .set({ status: 3, status_reason: reason })
          .where('id', '=', channel)
          .execute()
      const need = async (token?: string) =>
        (await ask('/api/attention', token)).find(
          ({ target }: { target: string }) => target === `channel:${channel}`,
        )
      const dismiss = (item: string, more = {}) =>
        relay.api('POST', '/api/attention/dismiss', { item, ...more })
      await disable('401 bad_key: No.')
      const { id, is_dismissed } = await need()
      assert.equal(is_dismissed, false)
      await relay.must(dismiss(id))
      assert.equal((await need()).is_dismissed, true)
      assert.equal((await ask('/api/attention')).at(-1).is_dismissed, true)
      const admin = await relay.gateway.createUser({ role: 10 })
      assert.equal((await need(admin.accessToken)).is_dismissed, false)

      await relay.must(dismiss(id, { is_dismissed: false }))
      assert.equal((await need()).is_dismissed, false)
      await relay.must(dismiss(id))
      await disable('402 no_credit: No.')
      assert.equal((await need()).is_dismissed, false)
      // The first cause has gone meanwhile, so it is new when it returns.
      await disable('401 bad_key: No.')
      assert.equal((await need()).is_dismissed, false)

      const refused = await dismiss('everything')
      assert.equal(refused.status, 400)
      assert.match(refused.text, /item/)
    })
  })
}
