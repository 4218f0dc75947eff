import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { openClient, start } from '../support/http1-client.ts'
import { createRandom, type Random } from '../support/mutated-responses.ts'
import { until } from '../support/process.ts'
import { type RawConnection, startRawServer } from '../support/raw-server.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const EXCHANGES = isCampaign ? 100_000 : 1_500
const AT_ONCE = 40
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? Date.now() % 1_000_000_007 : 20_261_116))

const digestOf = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex')

/** Content that differs at every offset and in every exchange, so that a byte at another place is noticed. */
function contentOf(name: number, size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size)
  for (let at = 0; at < size; at++) bytes[at] = (at * 31 + name * 17 + (at >> 8)) & 0xff
  return bytes
}

/** Answers `/size/name/style`, in pieces, with the faults that servers have. */
async function answer(connection: RawConnection, random: Random): Promise<void> {
  const { socket } = connection
  for (;;) {
    const request = await connection.request()
    if (request === undefined) return
    const [, size, name, style] = /^GET \/(\d+)\/(\d+)\/(\w+)/.exec(request.head) ?? []
    const content = contentOf(Number(name), Number(size))
    if (style === 'late') await delay(random.below(5))
    if (style === 'cut') {
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n1')
      return
    }
    const isChunked = style === 'chunked'
    socket.write(
      `HTTP/1.1 200 OK\r\n${isChunked ? 'transfer-encoding: chunked' : `content-length: ${content.length}`}\r\n\r\n`,
    )
    for (let at = 0; at < content.length; ) {
      if (socket.destroyed) return
      const piece = content.subarray(at, at + 1 + random.below(20_000))
      at += piece.length
      if (isChunked) socket.write(`${piece.length.toString(16)}\r\n`)
      socket.write(piece)
      if (isChunked) socket.write('\r\n')
      if (random.isOneIn(3)) await new Promise(setImmediate)
    }
    if (isChunked) socket.write('0\r\n\r\n')
    if (random.isOneIn(10)) {
      socket.end()
      return
    }
  }
}

describe('exchanges that are aborted at random moments', () => {
  it(`leave no connection and no wrong byte behind: ${EXCHANGES} exchanges, seed ${SEED}`, async () => {
    const random = createRandom(SEED)
    const server = await startRawServer(connection => answer(connection, random))
    const client = openClient({ maxConnections: AT_ONCE })
    const counts = { complete: 0, aborted: 0, failed: 0 }
    let next = 0

    async function run(): Promise<void> {
      while (next < EXCHANGES) {
        const name = next++
        const size = random.below(random.isOneIn(10) ? 300_000 : 3_000)
        const style = random.pick(['plain', 'plain', 'chunked', 'chunked', 'late', 'cut'])
        const path = `/${size}/${name}/${style}` as const
        const abortAt = random.isOneIn(3) ? random.below(size + 1) : undefined
        let received = 0
        const aborting = Promise.withResolvers<'aborted'>()
        const abort = () => {
          exchange.abort()
          aborting.resolve('aborted')
        }
        const exchange = start(client, { origin: server.origin, path, isRepeatable: true }, bytes => {
          received += bytes.length
          if (abortAt !== undefined && received >= abortAt) abort()
          else if (random.isOneIn(20)) {
            exchange.pause()
            setTimeout(() => exchange.resume(), random.below(3))
          }
        })
        if (abortAt === 0) setTimeout(abort, random.below(4))
        const result = await Promise.race([exchange.result, aborting.promise])
        if (result === 'aborted') counts.aborted += 1
        else if (result.error) counts.failed += 1
        else {
          counts.complete += 1
          assert.equal(digestOf(Buffer.from(result.body, 'latin1')), digestOf(contentOf(name, size)), path)
        }
      }
    }

    try {
      await Promise.all(Array.from({ length: AT_ONCE }, run))
      for (const count of Object.values(counts)) assert.ok(count > EXCHANGES / 20, JSON.stringify(counts))
      // What is open on this side is open on the other: idle connections, which are used again.
      await until('both sides to agree', async () =>
        server.open() === client.connectionCount() ? true : undefined,
      )
      assert.ok(client.connectionCount() <= AT_ONCE)
      client.close()
      assert.equal(client.connectionCount(), 0)
      await until('all connections to be closed', async () => (server.open() === 0 ? true : undefined))
    } finally {
      client.close()
      await server.close()
    }
  })
})
