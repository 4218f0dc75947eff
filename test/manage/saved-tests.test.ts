import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { z } from 'zod'
import { faultOf } from '../../src/manage/usage/expectation.ts'
import { runBounded } from '../support/bounded-work.ts'
import { oneEngine } from '../support/engines.ts'
import { startRecorder } from '../support/recorder.ts'
import { suiteRelay } from '../support/relay.ts'

type Fields = Readonly<Record<string, unknown>>
const completion = (content: string) => ({
  status: 200,
  body: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
  },
})

const nestedTypes = (type: readonly string[], levels: number): Fields =>
  levels === 0 ? { type: 'null' } : { type, items: nestedTypes(type, levels - 1) }

for (const engine of oneEngine('postgres'))
  describe(`saved tests on ${engine} (docs/operating/bodies.md: Saved tests)`, () => {
    const relay = suiteRelay(engine)
    let provider: Awaited<ReturnType<typeof startRecorder>>
    let model: string
    let judge: string
    let judgeProvider: typeof provider
    before(async () => {
      provider = await startRecorder()
      judgeProvider = await startRecorder()
      model = (await relay.serve('m', { base_url: provider.url })).model
      judge = (await relay.serve('m', { base_url: judgeProvider.url })).model
    })

    after(async () => {
      await provider.close()
      await judgeProvider.close()
    })

    const api = (method: string, path: string, body?: unknown, token?: string) =>
      relay.gateway.api(method, path, body, token === undefined ? {} : { token })

    async function keeper() {
      const user = await relay.gateway.createUser({ quota: 50_000_000 })
      const { key } = await relay.newToken({ log_bodies: 'all', unlimited_quota: true }, user.accessToken)
      provider.answers(completion('{"city":"Paris"}'))
      const reply = await relay.chat(key, { model, messages: [{ role: 'user', content: 'Where?' }] })
      assert.equal(reply.status, 200, reply.text)
      const save = (check: Fields, name = 'a test') =>
        api(
          'POST',
          '/api/replay/test/',
          { request_id: reply.headers.get('x-request-id'), name, check },
          user.accessToken,
        )
      return { ...user, save }
    }

    it('pass or fail by a text, an expression, a schema or a judge model', async () => {
      const { accessToken, save } = await keeper()
      const schema = (type: string) => ({
        kind: 'schema',
        schema: { type: 'object', properties: { city: { type } }, required: ['city'] },
      })
      const checks: readonly (readonly [Fields, boolean])[] = [
        [{ kind: 'contains', value: 'Paris' }, true],
        [{ kind: 'contains', value: 'Rome' }, false],
        [{ kind: 'equals', value: '{"city":"Paris"}' }, true],
        [{ kind: 'equals', value: 'Paris' }, false],
        [{ kind: 'matches', value: '"city":\\s*"P\\w+"' }, true],
        [{ kind: 'matches', value: '^Paris' }, false],
        [schema('string'), true],
        [schema('number'), false],
        [{ kind: 'judge', model: judge, question: 'Is a city named?' }, true],
      ]
      const expected = new Map<number, boolean>()
      for (const [check, passes] of checks)
        expected.set((await relay.must(save(check, JSON.stringify(check).slice(0, 99)))).id, passes)
      judgeProvider.answers(completion('Yes.'))
      const run = await relay.must(api('POST', '/api/replay/run', {}, accessToken))
      assert.deepEqual([run.passed, run.failed], [5, 4])
      for (const result of run.results) {
        assert.equal(result.passed, expected.get(result.test_id), `${result.name}: ${result.reason}`)
        assert.equal(result.passed, result.reason === '')
      }
      judgeProvider.answers(completion('No, it is not.'))
      const judged = run.results.find(({ name }: { name: string }) => name.includes('judge')).test_id
      const again = await relay.must(api('POST', '/api/replay/run', { test_ids: [judged] }, accessToken))
      assert.match(again.results[0].reason, /The judge model answered: No/)
    })

    it('run against another model or channel, and fail if the request does', async () => {
      const { accessToken, save } = await keeper()
      const { id } = await relay.must(save({ kind: 'contains', value: 'Paris' }))
      const other = await startRecorder()
      const { model: rome, channels } = await relay.serve('m', { base_url: other.url })
      other.answers(completion('Rome'))
      const body = { test_ids: [id], model: rome }
      const [result] = (await relay.must(api('POST', '/api/replay/run', body, accessToken))).results
      assert.deepEqual([result.passed, result.model, result.answer], [false, rome, 'Rome'])
      const forced = { ...body, channel_id: channels[0] }
      assert.equal((await api('POST', '/api/replay/run', forced, accessToken)).status, 403)
      const admin = await relay.must(api('POST', '/api/replay/run', forced))
      assert.equal(admin.results[0].channel_id, channels[0])
      const missing = { test_ids: [id], model: 'no-such-model' }
      const [failed] = (await relay.must(api('POST', '/api/replay/run', missing, accessToken))).results
      assert.deepEqual([failed.passed, failed.reason], [false, 'The request got the status 404.'])
      await other.close()
    })

    it('are listed, changed and deleted by their owner and by Root, and erased with the account', async () => {
      const { id: userId, accessToken, save } = await keeper()
      const { id } = await relay.must(save({ kind: 'contains', value: 'Paris' }))
      const change = { id, name: 'renamed', check: { kind: 'equals', value: 'x' } }
      const changed = await relay.must(api('PUT', '/api/replay/test/', change, accessToken))
      assert.deepEqual([changed.name, changed.check], ['renamed', { kind: 'equals', value: 'x' }])
      const list = async (token?: string) =>
        (await relay.must(api('GET', '/api/replay/test/?page_size=100', undefined, token))).items as {
          id: number
        }[]
      assert.deepEqual(
        (await list(accessToken)).map(test => test.id),
        [id],
      )
      assert.ok((await list()).some(test => test.id === id))
      const { accessToken: stranger } = await relay.gateway.createUser()
      assert.deepEqual(await list(stranger), [])
      assert.equal((await api('DELETE', `/api/replay/test/${id}`, undefined, stranger)).status, 404)
      await relay.must(save({ kind: 'contains', value: 'y' }))
      await relay.must(api('DELETE', `/api/replay/test/${id}`, undefined, accessToken))
      await relay.must(api('DELETE', `/api/user/${userId}`))
      const remainingTests = relay.gateway.db
        .selectFrom('saved_tests')
        .select('id')
        .where('user_id', '=', userId)
      assert.deepEqual(await remainingTests.execute(), [])
    })

    describe('do not block the gateway', () => {
      const checkAnswer = (schema: Fields, answer: string) => run({ kind: 'schema', schema }, answer)
      const run = async (check: Fields, answer: string) => {
        const { accessToken, save } = await keeper()
        await relay.must(save(check))
        provider.answers(completion(answer))
        const { results } = await relay.must(api('POST', '/api/replay/run', {}, accessToken))
        return results[0] as { passed: boolean; reason: string }
      }
      const alternatives = (count: number) => ({
        type: 'array',
        items: { anyOf: Array.from({ length: count }, () => ({ type: 'null' })) },
      })
      const TOO_LARGE = 'The answer is too large to be compared with this schema.'

      it('with a schema that compares each value of a large answer many times', async () => {
        const zeros = (count: number) => JSON.stringify(Array(count).fill(0))
        assert.match((await checkAnswer(alternatives(900), zeros(10))).reason, /does not match the schema/)
        assert.equal((await checkAnswer(alternatives(900), zeros(4_000))).reason, TOO_LARGE)
        const merged = { allOf: Array.from({ length: 900 }, () => ({ type: 'array' })) }
        assert.equal((await checkAnswer(merged, zeros(40_000))).reason, TOO_LARGE)
        const nested = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
        assert.equal((await checkAnswer(merged, nested)).reason, TOO_LARGE)
      })

      it('with an expression that is slow for a long answer', async () => {
        const slow = { kind: 'matches', value: '[ab]{0,1000}[xy]' }
        const answer = 'a'.repeat(20_000)
        assert.equal(
          (await run(slow, answer)).reason,
          'The answer is too long to be searched with this expression.',
        )
        assert.equal((await run(slow, 'abx')).reason, '')
        assert.equal((await run({ kind: 'matches', value: 'a{3}$' }, answer)).reason, '')
      })

      it('with a code block that is not closed', async () => {
        const answerOf = (lines: number) => `\`\`\`json${'\n'.repeat(lines)}x`
        const reason = 'The answer is not JSON.'
        assert.equal((await checkAnswer({ type: 'array' }, answerOf(100_000))).reason, reason)
        const ask = () => assert.fail('no model is asked')
        const check = { kind: 'schema', schema: { type: 'array' } } as const
        const longest = answerOf(262_000)
        const reasons = runBounded(() => Array.from({ length: 20 }, () => faultOf(check, longest, ask)))
        assert.deepEqual([...new Set(await Promise.all(reasons))], [reason])
      })

      it('but a long list of objects passes, also in a code block', async () => {
        const field = { type: 'string' }
        const names = Array.from({ length: 10 }, (_, index) => `field${index}`)
        const properties = Object.fromEntries(names.map(name => [name, field]))
        const row = Object.fromEntries(names.map(name => [name, 'text']))
        const schema = { type: 'array', items: { type: 'object', properties, required: names } }
        const answer = `\`\`\`json\n${JSON.stringify(Array(500).fill(row), undefined, 1)}\n\`\`\`\n`
        assert.equal((await checkAnswer(schema, answer)).reason, '')
      })
    })

    it('refuse a check that cannot be evaluated or could block the gateway', async () => {
      const { save } = await keeper()
      const wrong: readonly (readonly [Fields, string])[] = [
        [{ kind: 'matches', value: '(' }, 'check.value'],
        [{ kind: 'matches', value: `(?:${'ab'.repeat(240)}){1000}` }, 'check.value'],
        [{ kind: 'matches', value: '.{0,1000}'.repeat(50) }, 'check.value'],
        [{ kind: 'schema', schema: { type: 'string', pattern: '(a+)+$' } }, 'check.schema'],
        [{ kind: 'schema', schema: { properties: { a: { $ref: '#' } } } }, 'check.schema'],
        [{ kind: 'schema', schema: { type: 'nothing' } }, 'check.schema'],
        [{ kind: 'schema', schema: nestedTypes(['array', 'array'], 14) }, 'check.schema'],
        [{ kind: 'judge', model: judge }, 'check.question'],
        [{ kind: 'sounds good' }, 'check.kind'],
      ]
      for (const [check, path] of wrong) {
        const reply = await save(check)
        assert.deepEqual([reply.status, reply.body.errors?.[0].path], [400, path], reply.text)
      }
      assert.equal((await save({ kind: 'schema', schema: nestedTypes(['array', 'null'], 14) })).status, 200)
      // A field may be named like a keyword.
      const keywordCheck = { kind: 'schema', schema: { properties: { pattern: { type: 'string' } } } }
      assert.equal((await save(keywordCheck)).status, 200)
    })

    it('leave nothing of their schemas in memory', async () => {
      const { save } = await keeper()
      const sizeBefore = z.globalRegistry._idmap.size
      await relay.must(save({ kind: 'schema', schema: { id: 'a-name', type: 'object' } }))
      assert.equal(z.globalRegistry._idmap.size, sizeBefore)
    })
  })
