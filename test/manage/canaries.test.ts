import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type CliDeps, runCli } from '../../src/cli/cli.ts'
import { canaryPlace } from '../../src/domain/canary.ts'
import { NANO_DIGITS, scaled } from '../../src/domain/money.ts'
import { oneEngine } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { suiteRelay } from '../support/relay.ts'

const nanos = (usd: string) => scaled(usd, NANO_DIGITS) ?? Number.NaN

for (const engine of oneEngine('sqlite')) {
  describe(`a canary on ${engine} (docs/reference/canary.md: Kinds)`, () => {
    const relay = suiteRelay(engine)
    const must: typeof relay.must = reply => relay.must(reply)
    const api: typeof relay.api = (...args) => relay.api(...args)
    const start = (body: object) => must(api('POST', '/api/canary/', body))
    const show = (id: number) => must(api('GET', `/api/canary/${id}`))
    const drop = (id: number) => must(api('POST', `/api/canary/${id}/drop`, {}))
    const revisions = async () => (await must(api('GET', '/api/config/revision/?page_size=1'))).items
    const ask = (key: string, model: string) =>
      relay.chat(key, { model, messages: [{ role: 'user', content: 'Hi' }] })
    const askTimes = async (key: string, model: string, times: number) => {
      const replies = []
      for (let turn = 0; turn < times; turn += 1) replies.push(await ask(key, model))
      return replies
    }
    type Row = Awaited<ReturnType<typeof relay.rowsOf>>[number]
    const sideIn = (row: Row, id: number) =>
      row.other.canary?.find((mark: { id: number }) => mark.id === id)?.side
    const mappedTo = (model: string, sentModel: string) => ({ model_mapping: { [model]: sentModel } })

    it('of a channel serves exactly the requests of its share, and counts both sides', async () => {
      const { model, channels } = await relay.serve('sim-ok')
      const { id: tokenId, key } = await relay.newToken()
      await ask(key, model)
      const canary = await start({
        kind: 'channel',
        channel_id: channels[0],
        changes: mappedTo(model, 'sim-canary'),
        share: 30,
      })
      assert.deepEqual(canary.fields, [
        { path: 'model_mapping', before: { [model]: 'sim-ok' }, after: { [model]: 'sim-canary' } },
      ])
      const replies = await askTimes(key, model, 20)
      assert.ok(replies.every(({ status }) => status === 200))
      const [first, ...rows] = await relay.rowsOf(tokenId, 21)
      assert.equal(first?.other.canary, undefined)
      const sides = rows.map(row => [row.request_id, sideIn(row, canary.id)])
      assert.deepEqual(
        sides,
        rows.map(({ request_id }) => [
          request_id,
          canaryPlace(canary.id, request_id) < 300 ? 'canary' : 'baseline',
        ]),
      )
      const tried = rows.filter(row => sideIn(row, canary.id) === 'canary')
      assert.equal((await relay.seen('sim-canary')).length, tried.length)
      const { comparison } = await show(canary.id)
      assert.equal(comparison.canary.requests, tried.length)
      assert.equal(comparison.baseline.requests, 20 - tried.length)
      assert.equal(
        nanos(comparison.canary.cost),
        tried.reduce((sum, { cost }) => sum + cost, 0),
      )
      const latencies = rows
        .filter(row => sideIn(row, canary.id) === 'baseline')
        .map(row => Number(row.use_time_ms))
        .sort((a, b) => a - b)
      assert.equal(comparison.baseline.latency_ms.p50, latencies[Math.ceil(latencies.length / 2) - 1])
      assert.equal(comparison.baseline.errors, 0)
      await drop(canary.id)
      await ask(key, model)
      const { other } = (await relay.rowsOf(tokenId, 22)).at(-1) ?? {}
      assert.equal(other.canary, undefined)
    })

    it('concerns only its tokens, and a change of the share begins a new round', async () => {
      const { model, channels } = await relay.serve('sim-ok')
      const [canaryToken, other] = [await relay.newToken(), await relay.newToken()]
      const { id } = await start({
        kind: 'channel',
        channel_id: channels[0],
        changes: { weight: 7 },
        token_ids: [canaryToken.id],
      })
      await ask(canaryToken.key, model)
      await ask(other.key, model)
      assert.equal(sideIn(await relay.rowOf(canaryToken.id), id), 'canary')
      assert.equal(sideIn(await relay.rowOf(other.id), id), undefined)
      const changed = await must(
        api('PUT', '/api/canary/', { id, token_ids: null, share: 0.1, split_by: 'token' }),
      )
      assert.equal(changed.round, 2)
      await ask(other.key, model)
      const [, row] = await relay.rowsOf(other.id, 2)
      const side = canaryPlace(id, String(other.id)) < 1 ? 'canary' : 'baseline'
      assert.deepEqual(row?.other.canary, [{ id, round: 2, side }])
      assert.equal((await show(id)).comparison[side].requests, 1)
      const first = await must(api('GET', `/api/canary/${id}?round=1`))
      assert.equal(first.comparison.canary.requests, 1)
      await must(api('POST', `/api/canary/${id}/pause`))
      await ask(other.key, model)
      assert.equal((await relay.rowsOf(other.id, 3)).at(-1)?.other.canary, undefined)
      assert.equal((await must(api('POST', `/api/canary/${id}/resume`))).state, 'running')
      await drop(id)
    })

    it('of an alias is priced by what it uses, and is promoted as a change with a revision', async () => {
      const cheap = await relay.serve('sim-ok')
      const dear = await relay.serve('sim-ok', {}, { input: 10, output: 20 })
      const alias = await must(
        api('POST', '/api/alias/', { name: `alias-${cheap.model}`, target: cheap.model }),
      )
      const { id: tokenId, key } = await relay.newToken()
      const canary = await start({ kind: 'alias', alias_id: alias.id, changes: { target: dear.model } })
      await ask(key, alias.name)
      const tried = await relay.rowOf(tokenId)
      assert.equal(tried.other.priced_as, dear.model)
      assert.equal(tried.cost, tried.prompt_tokens * 10_000 + tried.completion_tokens * 20_000)
      const promoted = await must(api('POST', `/api/canary/${canary.id}/promote`, { reason: 'faster' }))
      assert.equal(promoted.state, 'promoted')
      assert.equal((await must(api('GET', `/api/alias/${alias.id}`))).target, dear.model)
      const [revision] = await revisions()
      assert.equal(revision.reason, `Promote canary ${canary.id}: faster`)
      assert.deepEqual(revision.changes, [
        { target: `alias:${alias.id}`, name: alias.name, action: 'update' },
      ])
      await ask(key, alias.name)
      const [, after] = await relay.rowsOf(tokenId, 2)
      assert.equal(after?.other.canary, undefined)
      assert.equal(after?.other.priced_as, dear.model)
      const again = await api('POST', `/api/canary/${canary.id}/drop`, {})
      assert.equal(again.status, 409)
    })

    it('fails over to other channels, and leaves the health of its channel alone', async () => {
      const { model, channels } = await relay.serve(['sim-ok', 'sim-ok'])
      const [trying, other] = [await relay.newToken(), await relay.newToken()]
      const canary = await start({
        kind: 'channel',
        channel_id: channels[0],
        changes: mappedTo(model, 'sim-status-500'),
        token_ids: [trying.id],
      })
      const replies = await askTimes(trying.key, model, 7)
      assert.ok(replies.every(({ status }) => status === 200))
      for (const row of await relay.rowsOf(trying.id, 7)) {
        assert.equal(sideIn(row, canary.id), 'canary')
        assert.equal(row.channel_id, channels[1])
      }
      await ask(other.key, model)
      assert.equal((await relay.rowOf(other.id)).channel_id, channels[0])
      assert.equal((await must(api('GET', `/api/channel/${channels[0]}`))).state, 'enabled')
      await drop(canary.id)
    })

    it('tries a disabled channel by enabling it for a share, and counts requests that no channel took', async () => {
      const { model, channels } = await relay.serve('sim-ok', { status: 2 })
      const { key } = await relay.newToken()
      assert.equal((await ask(key, model)).status, 404)
      const canary = await start({
        kind: 'channel',
        channel_id: channels[0],
        changes: { status: 1 },
        share: 50,
      })
      const replies = await askTimes(key, model, 12)
      const served = replies.filter(({ status }) => status === 200).length
      // Rejected requests are written after a moment.
      const { canary: tried, baseline } = await until('all requests to be counted', async () => {
        const { comparison } = await show(canary.id)
        return comparison.baseline.requests + served === 12 ? comparison : undefined
      })
      assert.equal(tried.requests, served)
      assert.equal(tried.errors, 0)
      assert.equal(baseline.errors, 12 - served)
      await drop(canary.id)
    })

    it('ends with its channel or alias, and does not overwrite other changes unasked', async () => {
      const { model, channels } = await relay.serve('sim-ok')
      const body = { kind: 'channel', channel_id: channels[0], changes: mappedTo(model, 'sim-other') }
      const { id } = await start(body)
      const second = await api('POST', '/api/canary/', body)
      assert.equal(second.status, 409)
      await must(api('PUT', '/api/channel/', { id: channels[0], ...mappedTo(model, 'sim-third') }))
      assert.deepEqual((await show(id)).drift, ['model_mapping'])
      const refused = await api('POST', `/api/canary/${id}/promote`)
      assert.equal(refused.status, 409)
      assert.match(refused.body.message, /model_mapping/)
      await must(api('DELETE', `/api/channel/${channels[0]}`))
      const ended = await show(id)
      assert.deepEqual([ended.state, ended.end_note], ['dropped', 'The channel was deleted.'])
    })

    it('refuses what it cannot try, by the path of the field', async () => {
      const { model, channels } = await relay.serve('sim-ok')
      const admin = await relay.gateway.createUser({ role: 10 })
      const [channel_id] = channels
      for (const [body, path, status = 400] of [
        [{ kind: 'channel', changes: { weight: 1 } }, 'channel_id'],
        [{ kind: 'channel', channel_id, changes: { key: 'x' } }, 'changes.key'],
        [{ kind: 'channel', channel_id, changes: { weight: -1 } }, 'changes.weight'],
        [{ kind: 'channel', channel_id, changes: {} }, 'changes'],
        [{ kind: 'channel', channel_id, changes: { weight: 1 }, share: 0.05 }, 'share'],
        [{ kind: 'channel', channel_id, changes: { weight: 1 }, share: 1.23 }, 'share'],
        [{ kind: 'channel', channel_id, changes: { weight: 1 }, token_ids: [999_999] }, 'token_ids'],
        [{ kind: 'channel', channel_id, changes: { weight: 1 }, until: 5 }, 'until'],
        [{ kind: 'price', model, changes: { input: 1 }, share: 5 }, 'share'],
        [{ kind: 'price', model, changes: { input: -1 } }, 'changes.input'],
        [{ kind: 'channel', channel_id, changes: { base_url: 'https://evil.example' } }, 'changes.key', 403],
      ] as const) {
        const reply = await api('POST', '/api/canary/', body, { token: admin.accessToken })
        assert.equal(reply.status, status, reply.text)
        assert.equal(reply.body.errors[0].path, path)
      }
      const { status } = await api('POST', '/api/canary/', {
        kind: 'alias',
        alias_id: 999_999,
        changes: { target: 'x' },
      })
      assert.equal(status, 404)
    })

    it('is not applied while secrets were added that it would send elsewhere', async () => {
      const { model, channels } = await relay.serve('sim-ok')
      const { id: tokenId, key } = await relay.newToken()
      const { id } = await start({
        kind: 'channel',
        channel_id: channels[0],
        changes: { base_url: relay.upstream.replace('127.0.0.1', 'localhost') },
      })
      await ask(key, model)
      await must(api('PUT', '/api/channel/', { id: channels[0], key: 'another-key-4711' }))
      await ask(key, model)
      const rows = await relay.rowsOf(tokenId, 2)
      assert.deepEqual(
        rows.map(row => sideIn(row, id)),
        ['canary', undefined],
      )
      assert.deepEqual((await show(id)).drift, ['secrets'])
      await drop(id)
    })

    it('of a price is computed beside the real one and never charged', async () => {
      const { model } = await relay.serve('sim-ok')
      const plain = await relay.newToken()
      await askTimes(plain.key, model, 2)
      const { id } = await start({ kind: 'price', model, changes: { input: 5, output: 7 } })
      const priced = await relay.newToken()
      await askTimes(priced.key, model, 3)
      const before = await relay.rowsOf(plain.id, 2)
      const rows = await relay.rowsOf(priced.id, 3)
      for (const row of rows) {
        assert.equal(row.cost, before[0]?.cost)
        assert.deepEqual(
          row.other.shadow.map((shadow: { id: number; cost: string }) => [shadow.id, nanos(shadow.cost)]),
          [[id, row.prompt_tokens * 5_000 + row.completion_tokens * 7_000]],
        )
      }
      const entries = await relay.gateway.db
        .selectFrom('entries')
        .select(['amount', 'reason', 'kind', 'actor'])
        .where('token_id', 'in', [plain.id, priced.id])
        .where('kind', '=', 'settle')
        .execute()
      assert.equal(new Set(entries.map(entry => JSON.stringify(entry))).size, 1)
      const real = rows.reduce((sum, { cost }) => sum + cost, 0)
      const shadow = rows.reduce((sum, row) => sum + nanos(row.other.shadow[0].cost), 0)
      const { shadow: totals } = await show(id)
      assert.deepEqual([totals.requests, nanos(totals.cost), nanos(totals.shadow_cost)], [3, real, shadow])
      for (const group of ['day', 'user', 'token']) {
        const { items } = await must(api('GET', `/api/canary/${id}/report?group=${group}`))
        assert.equal(items.length, 1)
        assert.equal(nanos(items[0].shadow_cost), shadow)
        if (group === 'token') assert.equal(items[0].key, priced.id)
      }
      const [own] = (await must(api('GET', '/api/log/self?page_size=1'))).items
      assert.equal(JSON.parse(own.other).shadow, undefined)
      await must(api('POST', `/api/canary/${id}/promote`))
      const [revision] = await revisions()
      assert.equal(revision.changes[0].target, `price:${model}`)
      await ask(priced.key, model)
      const last = (await relay.rowsOf(priced.id, 4)).at(-1)
      assert.equal(last?.cost, (last?.prompt_tokens ?? 0) * 5_000 + (last?.completion_tokens ?? 0) * 7_000)
      assert.equal(last?.other.shadow, undefined)
    })

    it('is explained with the route of a request', async () => {
      const { model, channels } = await relay.serve('sim-ok')
      const canaryToken = await relay.newToken()
      const { id } = await start({
        kind: 'channel',
        channel_id: channels[0],
        changes: mappedTo(model, 'sim-tried'),
        token_ids: [canaryToken.id],
      })
      const explain = async (fields: object = {}) => {
        const { canaries, steps } = await must(api('POST', '/api/route/explain', { model, ...fields }))
        return [canaries[0]?.side, steps[0].sent_model, canaries[0]?.reason]
      }
      assert.deepEqual(await explain(), [null, 'sim-ok', 'Only requests of some tokens take part.'])
      assert.deepEqual((await explain({ token_id: canaryToken.id })).slice(0, 2), ['canary', 'sim-tried'])
      assert.deepEqual((await explain({ canary_id: id })).slice(0, 2), ['canary', 'sim-tried'])
      await drop(id)
      assert.deepEqual(await explain(), [undefined, 'sim-ok', undefined])
    })

    it('is started, compared and ended from the command line', async () => {
      const { model } = await relay.serve('sim-ok')
      const name = `cli-${model}`
      const alias = await must(api('POST', '/api/alias/', { name, target: 'elsewhere' }))
      const { key } = await relay.newToken()
      const sluice = async (...words: string[]) => {
        const lines: string[] = []
        const print = (line: string) => void lines.push(line)
        const operate = (operation: 'listCanaries', input: never) =>
          relay.gateway.operations[operation](input)
        const deps = { operate, print, printError: print } as unknown as CliDeps
        const code = await runCli(['canary', ...words], deps)
        return { code, text: lines.join('\n') }
      }
      const set = JSON.stringify({ target: model })
      const started = await sluice('start', '--alias', name, '--set', set, '--share', '100', '--json')
      assert.equal(started.code, 0, started.text)
      const { id } = JSON.parse(started.text)
      assert.equal((await ask(key, name)).status, 200)
      assert.match((await sluice('list')).text, new RegExp(`canary ${id} {2}alias "${name}" {2}running`))
      await show(id)
      assert.match((await sluice('show', String(id))).text, /requests +1 +0/)
      assert.equal((await sluice('set', String(id), '--share', '0.1')).code, 0)
      assert.match((await sluice('pause', String(id))).text, /paused/)
      assert.match((await sluice('promote', String(id), '--reason', 'works')).text, /promoted/)
      assert.equal((await must(api('GET', `/api/alias/${alias.id}`))).target, model)
      assert.equal((await revisions())[0].reason, `Promote canary ${id}: works`)
      assert.equal((await sluice('drop', 'x')).code, 64)
      assert.equal((await sluice('start', '--set', set)).code, 64)
      const again = await sluice('drop', String(id))
      assert.equal(again.code, 1)
      assert.match(again.text, /was promoted/)
    })

    it('leaves a store that the verification accepts', async () => {
      const report = await must(api('GET', '/api/ledger/verify'))
      assert.equal(report.ok, true, JSON.stringify(report))
    })
  })
}
