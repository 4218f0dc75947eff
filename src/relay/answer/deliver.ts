import type { ServerResponse } from 'node:http'
import { type Budget, createShare, type Share } from '../../http/budget.ts'
import type { StreamMeter } from '../operations/channel-request.ts'
import type { ConnectionFailure, Flow } from '../upstream/upstream.ts'

/** How a stream went: to its end, cut by the provider, left by the client, or stopped by us. */
export type Delivery =
  | { readonly ending: 'end' }
  | { readonly ending: 'cut'; readonly failure: ConnectionFailure }
  | { readonly ending: 'left' }
  | { readonly ending: 'stopped' }

export type Delivering = {
  readonly response: ServerResponse
  readonly flow: Flow
  readonly meter: StreamMeter
  /** What is said while nothing comes; absent: nothing may be said, as between the bytes of a file. */
  readonly keepAlive: string | undefined
  /** The memory that all bodies of this process may take. */
  readonly memory: Budget
  abort(): void
  /** Called with the first bytes that go out, and after that at most once a second. False stops the stream. */
  onProgress(): boolean
  nowMs(): number
}

/** A client that takes nothing for so long is gone, although its socket does not say so. */
const STALL_MS = 60_000
const PROGRESS_MS = 1_000
const KEEP_ALIVE_MS = 15_000
/** Nothing is to come after the last event; a host that leaves its answer open then is not waited for. */
const AFTER_LAST_MS = 250

/** After so much of one stream the other requests get their turn: a provider may send faster than it can be read. */
const TURN_BYTES = 64 * 1024
/** What a client that takes nothing keeps in memory (docs/limits.md). */
const STALLED_BYTES = 256 * 1024

/** Above this a copy costs more than what it saves. */
const SMALL_BYTES = 16_384

/**
 * A small piece leaves with the length before it and the end behind it as one text, a character a byte: one plain write
 * instead of four that are gathered. Node.js is told that there is no more to frame, for as long as that takes.
 */
function writeSmall(response: ServerResponse, bytes: Buffer): boolean {
  response.chunkedEncoding = false
  try {
    return response.write(`${bytes.length.toString(16)}\r\n${bytes.toString('latin1')}\r\n`, 'latin1')
  } finally {
    response.chunkedEncoding = true
  }
}

/** The one loop that owns both sockets of a stream: bytes, backpressure, departure, silence. */
export function deliver(delivering: Delivering): Promise<Delivery> {
  const { response, flow, meter, keepAlive, memory, abort, onProgress, nowMs } = delivering
  const { promise, resolve } = Promise.withResolvers<Delivery>()
  let isOver = false
  let lastProgressMs = 0
  let lastWriteMs = nowMs()
  let stalledSinceMs = 0
  let share: Share | undefined
  let closing: NodeJS.Timeout | undefined
  let turnBytes = 0
  let turn: NodeJS.Immediate | undefined

  function finish(delivery: Delivery): void {
    if (isOver) return
    isOver = true
    clearInterval(watch)
    clearTimeout(closing)
    clearImmediate(turn)
    share?.end()
    response.off('close', onClose).off('drain', onDrain)
    if (delivery.ending !== 'end') abort()
    resolve(delivery)
  }

  const onClose = () => finish({ ending: 'left' })
  const onDrain = () => {
    stalledSinceMs = 0
    share?.end()
    share = undefined
    if (turn === undefined) flow.resume()
  }

  /** Lets other requests have their turn, and reads on after that. */
  function yieldTurn(): void {
    turnBytes = 0
    flow.pause()
    turn = setImmediate(() => {
      turn = undefined
      if (stalledSinceMs === 0) flow.resume()
    })
  }

  function write(bytes: Buffer): void {
    lastWriteMs = nowMs()
    const isSmall = bytes.length > 0 && bytes.length <= SMALL_BYTES
    // What Node.js has been given in this turn it may still be gathering: a small piece would overtake it.
    const isNext = response.chunkedEncoding && response.writableCorked === 0
    const isTaken = isSmall && isNext ? writeSmall(response, bytes) : response.write(bytes)
    if (isTaken || stalledSinceMs !== 0) return
    stalledSinceMs = lastWriteMs
    flow.pause()
    share = createShare(memory)
    // Without memory for what waits, a client that does not read is given up.
    if (!share.take(STALLED_BYTES)) response.destroy()
  }

  /** False when the bytes are no stream we go on reading: a line without end, an event without end. */
  function pass(read: () => readonly Buffer[]): boolean {
    try {
      for (const bytes of read()) write(bytes)
      return true
    } catch (error) {
      finish({
        ending: 'cut',
        failure: { kind: 'failure', reason: 'invalid', message: (error as Error).message, wasSent: true },
      })
      return false
    }
  }

  function end(): void {
    if (!isOver && pass(() => meter.end())) finish({ ending: 'end' })
  }

  /** The last event waits here for the books, and the books for the end of the answer. */
  function endSoon(): void {
    closing ??= setTimeout(() => {
      end()
      abort()
    }, AFTER_LAST_MS)
  }

  // Silence and stalls are looked for together, so a stream has one timer however many chunks it has.
  const watch = setInterval(() => {
    const now = nowMs()
    if (stalledSinceMs !== 0 && now - stalledSinceMs > STALL_MS) {
      finish({ ending: 'left' })
      response.destroy()
    } else if (keepAlive !== undefined && stalledSinceMs === 0 && now - lastWriteMs >= KEEP_ALIVE_MS) {
      lastWriteMs = now
      response.write(keepAlive)
    }
  }, KEEP_ALIVE_MS / 3)

  response.on('close', onClose).on('drain', onDrain)
  if (response.destroyed) finish({ ending: 'left' })

  flow.listen({
    data(chunk) {
      if (isOver) return
      if (!pass(() => meter.push(chunk))) return
      turnBytes += chunk.length
      if (turnBytes >= TURN_BYTES && turn === undefined && !isOver) yieldTurn()
      if (meter.reading.isDone || meter.reading.error !== undefined) endSoon()
      const now = nowMs()
      if (now - lastProgressMs < PROGRESS_MS) return
      lastProgressMs = now
      if (!onProgress()) finish({ ending: 'stopped' })
    },
    end,
    fail: failure => finish({ ending: 'cut', failure }),
  })
  return promise
}
