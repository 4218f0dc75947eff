import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { QUESTION, STREAM_QUESTION } from './answers.ts'
import { openInspector } from './inspector.ts'
import { putLoad } from './load.ts'
import type { Options } from './options.ts'
import { rssMibOf, startReporting, untilQuiet } from './process.ts'
import { startSluice } from './sluice.ts'
import { inWords, printTable } from './table.ts'

/** The memory cost of clients that request a long stream and do not read it. */
const CLIENTS = 1_000
const GOAL_MIB = 100
const WATCHED_S = 20
/** As many as the other benches of the relay. */
const WARMING = 30_000
const UPSTREAM = fileURLToPath(new URL('./upstream.ts', import.meta.url))
/** More than one, as real traffic has. */
const ORIGINS = 4

async function stopReading(chatUrl: string, headers: Readonly<Record<string, string>>): Promise<Socket> {
  const { port, hostname, pathname, host } = new URL(chatUrl)
  const socket = connect(Number(port), hostname)
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  socket.on('error', () => socket.destroy())
  // No data listener: received bytes stay in the kernel's buffers.
  socket.pause()
  const lines = Object.entries({
    host,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(STREAM_QUESTION)),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`POST ${pathname} HTTP/1.1\r\n${lines.join('')}\r\n${STREAM_QUESTION}`)
  return socket
}

const change = (mib: number) => `${mib < 0 ? '' : '+'}${mib.toFixed(1)}`

export async function benchSlowReaders({ requests: clients = CLIENTS, engine }: Options): Promise<void> {
  const [calm, flood] = [
    await startReporting<[string]>([UPSTREAM]),
    await startReporting<string[]>([UPSTREAM, '--does', 'flood', '--ports', String(ORIGINS)]),
  ]
  const sluice = await startSluice({ engine, inspected: true })
  const sockets: Socket[] = []
  try {
    await sluice.addChannel(calm.report[0], ['gpt-4o-mini'])
    for (const url of flood.report) await sluice.addChannel(url, ['gpt-4o'])
    // Warm-up first, and no collection after it: memory that any traffic needs is not counted.
    const load = { url: sluice.chatUrl, headers: sluice.headers, body: QUESTION, connections: 64 }
    await putLoad({ ...load, requests: WARMING })
    const inspector = await openInspector(sluice.inspectorPort)
    const insideMib = async () => ({
      heap: await inspector.liveHeapMib(),
      buffers: (await inspector.evaluate('process.memoryUsage().arrayBuffers')) / 1_048_576,
    })
    await untilQuiet(sluice.pid)
    const beforeMib = rssMibOf(sluice.pid)
    const before = await insideMib()
    for (let i = 0; i < clients; i++) sockets.push(await stopReading(sluice.chatUrl, sluice.headers))
    const series: number[] = []
    for (let second = 0; second < WATCHED_S; second++) {
      await sleep(1_000)
      series.push(rssMibOf(sluice.pid) - beforeMib)
    }
    const open = sockets.filter(socket => !socket.destroyed).length
    const during = await insideMib()
    const collectedMib = rssMibOf(sluice.pid) - beforeMib
    const health = await fetch(`${sluice.url}/healthz`)
    for (const socket of sockets) socket.destroy()
    await untilQuiet(sluice.pid)
    inspector.close()
    const afterMib = rssMibOf(sluice.pid) - beforeMib
    const mostMib = Math.max(...series)
    console.log(`slow-readers: ${clients} clients stop reading a stream, watched for ${WATCHED_S} s\n`)
    printTable(
      ['', 'RSS MiB'],
      [
        ['before', beforeMib.toFixed(1)],
        ...[1, 5, 10, WATCHED_S].map(second => [`after ${second} s`, change(series[second - 1] ?? 0)]),
        ['most', change(mostMib)],
        ['after a collection', change(collectedMib)],
        ['after they disconnected', change(afterMib)],
      ],
    )
    console.log(
      `Still in use after garbage collection: heap +${(during.heap - before.heap).toFixed(1)} MiB, ` +
        `buffers +${(during.buffers - before.buffers).toFixed(1)} MiB.`,
    )
    console.log(
      `${open} of them were still connected at the end; /healthz answered ${health.status}. ` +
        `Goal (+ < ${GOAL_MIB} MiB): ${inWords(mostMib < GOAL_MIB)}.`,
    )
  } finally {
    for (const socket of sockets) socket.destroy()
    await sluice.stop()
    await Promise.all([calm, flood].map(({ stop }) => stop()))
  }
}
