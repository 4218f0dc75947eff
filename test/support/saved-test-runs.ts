import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { runHere } from './command.ts'
import { newGround, run, settingsOf, startServer } from './process.ts'
import { startRecorder } from './recorder.ts'
import { createResources } from './relay.ts'

const ANSWER = {
  status: 200,
  body: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Paris' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
  },
}

/** The suite of `sluice replay` beside a gateway with so many workers. */
export function describeReplay(workers: number): void {
  describe('sluice replay (docs/operating/bodies.md: Saved tests)', () => {
    it(`exits 0 if every test passes and 1 otherwise, with ${workers} workers`, async () => {
      const ground = { ...(await newGround('sqlite')), env: { SLUICE_WORKERS: String(workers) } }
      const env = settingsOf(ground)
      const replay = (...words: string[]) => runHere(['replay', ...words], { env })
      const server = await startServer(ground)
      const provider = await startRecorder()
      provider.answers(ANSWER)
      try {
        const resources = createResources(server.api, provider.url)
        const { model, channels } = await resources.serve('m')
        const { key } = await resources.newToken({ log_bodies: 'all' })
        const none = await replay()
        assert.equal(none.code, 1)
        assert.match(none.stdout, /^There are no saved tests: [^\n]+\n$/)
        const chat = { model, messages: [{ role: 'user', content: 'Where?' }] }
        const reply = await server.api('POST', '/v1/chat/completions', chat, { token: key })
        assert.equal(reply.status, 200, reply.text)
        const request_id = reply.headers.get('x-request-id')
        const save = (name: string, value: string) =>
          resources.must(
            server.api('POST', '/api/replay/test/', { request_id, name, check: { kind: 'contains', value } }),
          )
        await save('names the city', 'Paris')
        const passingRun = await run(['replay', '--channel', String(channels[0])], { env })
        assert.equal(passingRun.code, 0, passingRun.stderr)
        assert.match(passingRun.stdout, /^pass {2}names the city .*\n1 passed, 0 failed\n$/)
        await save('names another city', 'Rome')
        const failed = await replay('--json')
        assert.equal(failed.code, 1)
        const { passed: good, failed: bad } = JSON.parse(failed.stdout)
        assert.deepEqual([good, bad], [1, 1])
        const missing = await replay('--model', 'no-such-model')
        assert.deepEqual([missing.code, /got the status 404/.test(missing.stdout)], [1, true])
        assert.equal((await replay('--channel', 'x')).code, 64)
        assert.match((await replay('--user', 'nobody')).stderr, /user "nobody" does not exist/)
        const { items } = await resources.must(server.api('GET', '/api/user/access_token/'))
        assert.deepEqual(
          items.filter(({ name }: { name: string }) => name === 'sluice replay'),
          [],
        )
      } finally {
        await provider.close()
        await server.stop()
      }
      const stopped = await replay()
      assert.deepEqual([stopped.code, /no gateway runs/.test(stopped.stderr)], [1, true])
    })
  })
}
