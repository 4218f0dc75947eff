import { type Budget, createShare, type Share } from '../../http/budget.ts'
import type { RelayOutgoing } from '../../http/relay-exchange.ts'
import type { StreamMeter } from '../operations/channel-request.ts'
import type { ConnectionFailure, Flow, Receiver } from '../upstream/exchange.ts'

/** How a stream ended: complete, cut by the provider, left by the client, or stopped by the gateway. */
export type Delivery =
  | { readonly ending: 'end' }
  | { readonly ending: 'cut'; readonly failure: ConnectionFailure }
  | { readonly ending: 'disconnected' }
  | { readonly ending: 'stopped' }

type Delivering = {
  readonly response: RelayOutgoing
  readonly flow: Flow
  readonly meter: StreamMeter
  /** Sent while the provider is idle; absent: not allowed, as inside a file. */
  readonly keepAlive: string | undefined
  /** The memory budget of all bodies in this process. */
  readonly memory: Budget
  abort(): void
  /** Called with the first bytes that are sent, then at most once a second. False stops the stream. */
  onProgress(): boolean
  nowMs(): number
}

/** A client that reads nothing for this long counts as disconnected. */
const STALL_MS = 60_000
const PROGRESS_MS = 1_000
const KEEP_ALIVE_MS = 15_000
/** Nothing follows the last event. The gateway waits only this long for the provider to end the response. */
const AFTER_LAST_MS = 250

/**
 * After this many bytes of one stream the event loop serves other requests: a provider may send faster than it is read. Bytes that are
 * only forwarded take much less time than events.
 */
const TURN_BYTES = { events: 64 * 1024, file: 256 * 1024 } as const
/** The memory that a stalled client occupies (docs/limits.md). */
const STALLED_BYTES = 384 * 1024

/** Above this size a copy costs more than it saves. */
const SMALL_BYTES = 16_384

/**
 * Writes a small chunk with its HTTP framing as one latin1 string: one plain write instead of four gathered ones.
 * `chunkedEncoding` is off during the write, so that Node.js does not frame it again.
 */
function writeSmall(response: RelayOutgoing, bytes: Buffer): boolean {
  response.chunkedEncoding = false
  try {
    return response.write(`${bytes.length.toString(16)}\r\n${bytes.toString('latin1')}\r\n`, 'latin1')
  } finally {
    response.chunkedEncoding = true
  }
}

/** Forwards a stream, and owns both of its sockets meanwhile: bytes, backpressure, disconnects, timeouts. */
export function deliver(delivering: Delivering): Promise<Delivery> {
  const delivery = new StreamDelivery(delivering)
  delivery.start()
  return delivery.promise
}

/**
 * One object for each stream (ADR 29). The times change with every chunk: in an object they are stored in place, in the variables of a
 * closure each new one is another object.
 */
class StreamDelivery implements Receiver {
  // First the fields that every chunk uses: with many streams at once, each cache line of an object costs 0.2 µs.
  readonly keepsNothing: boolean
  #isOver = false
  readonly #meter: StreamMeter
  readonly #response: RelayOutgoing
  readonly #nowMs: () => number
  #lastWriteMs: number
  #lastProgressMs = 0
  #stalledSinceMs = 0
  #turnBytes = 0
  readonly #mostTurnBytes: number
  #turn: NodeJS.Immediate | undefined

  readonly promise: Promise<Delivery>
  readonly #delivering: Delivering
  readonly #resolve: (delivery: Delivery) => void
  #closing: NodeJS.Timeout | undefined
  #watch: NodeJS.Timeout | undefined
  #share: Share | undefined

  constructor(delivering: Delivering) {
    const { response, meter, nowMs } = delivering
    const { promise, resolve } = Promise.withResolvers<Delivery>()
    this.keepsNothing = meter.keepsNothing === true && response.copiesWrites === true
    this.#meter = meter
    this.#response = response
    this.#nowMs = nowMs
    this.#lastWriteMs = nowMs()
    this.#mostTurnBytes = meter.isFile ? TURN_BYTES.file : TURN_BYTES.events
    this.promise = promise
    this.#delivering = delivering
    this.#resolve = resolve
  }

  start(): void {
    const response = this.#response
    // One timer per stream checks for idle providers and stalled clients.
    this.#watch = setInterval(check, KEEP_ALIVE_MS / 3, this)
    response.on('close', this.#onClose).on('drain', this.#onDrain)
    if (response.destroyed) this.#finish({ ending: 'disconnected' })
    this.#delivering.flow.listen(this)
  }

  data(chunk: Buffer): void {
    if (this.#isOver) return
    const meter = this.#meter
    const nowMs = this.#nowMs()
    try {
      this.#forward(meter.push(chunk), nowMs)
    } catch (error) {
      this.#cut(error as Error)
      return
    }
    this.#turnBytes += chunk.length
    if (this.#turnBytes >= this.#mostTurnBytes && this.#turn === undefined && !this.#isOver) this.#yieldTurn()
    if (meter.reading.isDone || meter.reading.error !== undefined) this.#endSoon()
    if (nowMs - this.#lastProgressMs < PROGRESS_MS) return
    this.#lastProgressMs = nowMs
    try {
      if (!this.#delivering.onProgress()) this.#finish({ ending: 'stopped' })
    } catch (error) {
      // Not thrown on: the connection that reads these bytes does not handle it.
      this.#cut(error as Error, 'local')
    }
  }

  end(): void {
    if (this.#isOver) return
    try {
      this.#forward(this.#meter.end(), this.#nowMs())
    } catch (error) {
      this.#cut(error as Error)
      return
    }
    this.#finish({ ending: 'end' })
  }

  fail(failure: ConnectionFailure): void {
    this.#finish({ ending: 'cut', failure })
  }

  check(): void {
    const { keepAlive } = this.#delivering
    const now = this.#nowMs()
    if (this.#stalledSinceMs !== 0 && now - this.#stalledSinceMs > STALL_MS) {
      this.#finish({ ending: 'disconnected' })
      this.#response.destroy()
    } else if (
      keepAlive !== undefined &&
      this.#stalledSinceMs === 0 &&
      now - this.#lastWriteMs >= KEEP_ALIVE_MS
    ) {
      this.#lastWriteMs = now
      this.#response.write(keepAlive)
    }
  }

  endTurn(): void {
    this.#turn = undefined
    if (this.#stalledSinceMs === 0) this.#delivering.flow.resume()
  }

  endAndAbort(): void {
    this.end()
    this.#delivering.abort()
  }

  readonly #onClose = () => this.#finish({ ending: 'disconnected' })

  readonly #onDrain = () => {
    this.#stalledSinceMs = 0
    this.#share?.end()
    this.#share = undefined
    if (this.#turn === undefined) this.#delivering.flow.resume()
  }

  #finish(delivery: Delivery): void {
    if (this.#isOver) return
    this.#isOver = true
    clearInterval(this.#watch)
    clearTimeout(this.#closing)
    clearImmediate(this.#turn)
    this.#share?.end()
    this.#response.off('close', this.#onClose).off('drain', this.#onDrain)
    if (delivery.ending !== 'end') this.#delivering.abort()
    this.#resolve(delivery)
  }

  /** `invalid`: the bytes are not a readable stream, such as an endless line or event. `local`: the gateway failed. */
  #cut({ message }: Error, reason: 'invalid' | 'local' = 'invalid'): void {
    this.#finish({ ending: 'cut', failure: { kind: 'failure', reason, message, wasSent: true } })
  }

  /** Lets other requests run, then resumes. */
  #yieldTurn(): void {
    this.#turnBytes = 0
    this.#delivering.flow.pause()
    this.#turn = setImmediate(endTurn, this)
  }

  #forward(pieces: readonly Buffer[], nowMs: number): void {
    for (const bytes of pieces) this.#write(bytes, nowMs)
  }

  #write(bytes: Buffer, nowMs: number): void {
    const response = this.#response
    this.#lastWriteMs = nowMs
    const isSmall = bytes.length > 0 && bytes.length <= SMALL_BYTES
    // Node.js may still buffer earlier chunks of this turn, which a direct write would overtake.
    const isNext = response.chunkedEncoding && response.writableCorked === 0
    const hasRoom = isSmall && isNext ? writeSmall(response, bytes) : response.write(bytes)
    if (!hasRoom && this.#stalledSinceMs === 0) this.#stall(nowMs)
  }

  #stall(nowMs: number): void {
    const { flow, memory } = this.#delivering
    this.#stalledSinceMs = nowMs
    flow.pause()
    this.#share = createShare(memory)
    // Without memory for its buffer, a stalled client is disconnected.
    if (!this.#share.take(STALLED_BYTES)) this.#response.destroy()
  }

  /** The last event is sent after the settlement, which waits for the end of the answer. */
  #endSoon(): void {
    this.#closing ??= setTimeout(endAndAbort, AFTER_LAST_MS, this)
  }
}

// Shared by all streams: a timer passes them the stream.
const check = (delivery: StreamDelivery) => delivery.check()
const endTurn = (delivery: StreamDelivery) => delivery.endTurn()
const endAndAbort = (delivery: StreamDelivery) => delivery.endAndAbort()
