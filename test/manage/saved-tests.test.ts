import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
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
      const left = relay.gateway.db.selectFrom('saved_tests').select('id').where('user_id', '=', userId)
      assert.deepEqual(await left.execute(), [])
    })

    it('refuse a check that cannot be evaluated or could block the gateway', async () => {
      const { save } = await keeper()
      const wrong: readonly (readonly [Fields, string])[] = [
        [{ kind: 'matches', value: '(' }, 'check.value'],
        [{ kind: 'schema', schema: { type: 'string', pattern: '(a+)+$' } }, 'check.schema'],
        [{ kind: 'schema', schema: { properties: { a: { $ref: '#' } } } }, 'check.schema'],
        [{ kind: 'schema', schema: { type: 'nothing' } }, 'check.schema'],
        [{ kind: 'judge', model: judge }, 'check.question'],
        [{ kind: 'sounds good' }, 'check.kind'],
      ]
      for (const [check, path] of wrong) {
        const reply = await save(check)
        assert.deepEqual([reply.status, reply.body.errors?.[0].path], [400, path], reply.text)
      }
      // A field may be named like a keyword.
      const named = { kind: 'schema', schema: { properties: { pattern: { type: 'string' } } } }
      assert.equal((await save(named)).status, 200)
    })
  })
