import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { newGround, type Server, startServer, until } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

const OPEN_FILES = 200

describe('a gateway with few file descriptors', () => {
  let simulator: Simulator
  let server: Server
  let key: string
  let resources: ReturnType<typeof createResources>
  // An open connection needs no new descriptor.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })

  before(async () => {
    simulator = await startSimulator()
    const preload = new URL('../../support/descriptors.ts', import.meta.url).href
    server = await startServer({
      ...(await newGround('sqlite')),
      openFiles: OPEN_FILES,
      env: { NODE_OPTIONS: `--import=${preload}` },
    })
    resources = createResources(server.api, simulator.url)
    key = (await resources.newToken({ unlimited_quota: true })).key
  })
  after(async () => {
    agent.destroy()
    await server.kill()
    await simulator.close()
  })

  const send = (path: string, body: string | undefined, headers: Readonly<Record<string, string>>) =>
    new Promise<{ status: number | undefined; text: string; headers: NodeJS.Dict<string | string[]> }>(
      (resolve, reject) => {
        const sending = request(
          `${server.url}${path}`,
          { agent, method: body ? 'POST' : 'GET', headers },
          response => {
            let text = ''
            response.setEncoding('utf8').on('data', piece => {
              text += piece
            })
            response.once('end', () =>
              resolve({ status: response.statusCode, text, headers: response.headers }),
            )
          },
        )
        sending.once('error', reject)
        sending.end(body)
      },
    )

  const chat = (model: string) =>
    send('/v1/chat/completions', JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }), {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
    })

  it('warns at startup that fewer connections fit than are configured', async () => {
    const line = await until('a warning', () =>
      server.lines().find(({ msg }) => /SLUICE_MAX_CONNECTIONS is 10000/.test(String(msg))),
    )
    assert.match(String(line.msg), new RegExp(`may open ${OPEN_FILES} \\(ulimit -n\\)`))
  })

  for (const host of ['127.0.0.1', 'localhost'])
    it(`without a free descriptor refuses with 503 overloaded and records no channel failure: ${host}`, async () => {
      const { model } = await resources.serve('sim-words-2', {
        base_url: simulator.url.replace('127.0.0.1', host),
      })
      await send('/healthz', undefined, { 'x-hoard': 'take' })
      const replies = []
      for (let i = 0; i < 8; i++) replies.push(await chat(model))
      await send('/healthz', undefined, { 'x-hoard': 'give' })
      for (const { status, text, headers } of replies) {
        assert.equal(status, 503, text)
        assert.equal(JSON.parse(text).error.code, 'overloaded')
        assert.equal(headers['retry-after'], '1')
      }
      // Eight failures in a row would have put the channel into a cooldown.
      const served = await chat(model)
      assert.equal(served.status, 200, served.text)
      const lines = server.lines().filter(({ code }) => code === 'EMFILE')
      assert.equal(lines.length, 1)
      assert.match(String(lines[0]?.msg), /out of file descriptors.*SLUICE_MAX_CONNECTIONS/)
    })
})
