import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { HTTP_SERVERS, suiteResource } from '../support/gateway.ts'
import { echo, openClient, post, startHttp } from '../support/http1.ts'
import { createRandom, createRequestBytes } from '../support/request-bytes.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const COUNT = isCampaign ? 20_000 : 300
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? Date.now() % 2 ** 32 : 20_261_116))

const DATE = /\r\nDate: [^\r]*\r\n/g
/** The answers of `echo`, each of which contains the request as the server understood it. */
const ECHOES = /\{"method":.*?\}(?=HTTP\/|$)/gs
/**
 * A refusal by node:http. It closes the connection, and whether the answers to the requests before are complete by then
 * depends on how the bytes were read: from the socket, or from what is handed to it.
 */
const REFUSAL = /HTTP\/1\.1 4\d\d [\w ]+\r\nConnection: close\r\n\r\n$/

/**
 * node:http itself writes this between the head and the body of an answer if the request was pipelined and its answer is ready before
 * the one before is sent. When that is depends on the time only.
 */
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'

describe('a server that serves some requests without node:http', () => {
  const servers = suiteResource(
    async () => ({ http1: await startHttp(echo), node: await startHttp(echo, { http: 'node' }) }),
    async ({ http1, node }) => {
      await http1.close()
      await node.close()
    },
  )

  /** Everything that a server sends for these pieces, each of which it reads alone. */
  async function answers(port: number, pieces: readonly Buffer[]): Promise<string> {
    const { socket, closed, text } = await openClient(port)
    for (const piece of pieces) {
      if (socket.writable) await new Promise(resolve => socket.write(piece, resolve))
      for (let turn = 0; turn < 4; turn++) await setImmediate()
    }
    // A client that closes its side is a client that has left, so the answers must be complete before.
    const last = await openClient(port)
    last.socket.end('GET / HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n')
    await last.closed
    socket.end()
    await closed
    return text().replaceAll(DATE, '\r\nDate: now\r\n').replaceAll(CONTINUE, '')
  }

  it(`answers every sequence of bytes as node:http does: ${COUNT}, seed ${SEED}`, async () => {
    const random = createRandom(SEED)
    const next = createRequestBytes(random)
    const valid = () =>
      Buffer.from(post('a'.repeat(random() * 100), { path: random() < 0.9 ? '/v1/x' : '/x' }))
    let refused = 0
    for (let i = 0; i < COUNT; i++) {
      const requests = Array.from({ length: 1 + Math.floor(random() * 3) }, () =>
        random() < 0.7 ? valid() : next(),
      )
      const bytes = Buffer.concat(requests)
      const pieces: Buffer[] = []
      for (let at = 0; at < bytes.length; ) {
        const size = random() < 0.5 ? bytes.length : 1 + Math.floor(random() * 60)
        pieces.push(bytes.subarray(at, at + size))
        at += size
      }
      const [own, nodes] = await Promise.all(HTTP_SERVERS.map(name => answers(servers[name].port, pieces)))
      assert.ok(own !== undefined && nodes !== undefined)
      const text = JSON.stringify(pieces.map(piece => piece.toString('latin1')))
      if (REFUSAL.test(own) || REFUSAL.test(nodes)) {
        const understood = [own, nodes].map(answer => answer.match(ECHOES) ?? [])
        const common = Math.min(...understood.map(({ length }) => length))
        const [ownRequests, nodesRequests] = understood.map(requests => requests.slice(0, common))
        assert.deepEqual(ownRequests, nodesRequests, text)
        refused++
      } else assert.equal(own, nodes, text)
    }
    assert.ok(refused < COUNT * 0.9, `${refused} of ${COUNT} were refused`)
    const { byNode } = servers.http1
    assert.ok(byNode() < servers.node.byNode(), 'all requests were handed over')
  })
})
