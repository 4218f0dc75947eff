import { setImmediate } from 'node:timers/promises'
import { type KeptExchange, modelsIn } from '../../domain/body-log.ts'
import { createMask, type Mask } from '../../domain/body-mask.ts'
import type { Settings } from '../../domain/setting.ts'
import type { RelayIncoming, RelayOutgoing } from '../../http/relay-exchange.ts'
import { type BodySeal, bodyPlace } from '../../identity/body-seal.ts'
import type { BodyRow } from '../../store/engine/schema.ts'
import type { RequestReport } from '../request.ts'
import type { BodyCapture, CapturedExchange } from './capture.ts'

/** Bodies that wait for the store. Further ones are dropped. */
const MAX_WAITING_BYTES = 32 * 1_048_576
const MAX_WAITING = 5_000
/** A batch is one statement, which occupies SQLite's writer for some milliseconds. */
const BATCH = 128
const BATCH_BYTES = 2 * 1_048_576
const WRITE_EVERY_MS = 250
/** After this many bytes, other requests run. */
const TURN_BYTES = 64 * 1024

type BodiesDeps = {
  readonly seal: BodySeal
  settings(): Settings
  write(rows: readonly BodyRow[]): Promise<void>
  random(): number
  /** Unix seconds. */
  now(): number
  onDropped(count: number): void
  onFailure(error: Error): void
}

/** The bodies as they are stored: masked, and at most 256 KiB of each. */
type StoredBytes = { readonly request: Buffer; readonly answer: Buffer }

/** The bodies of a request that are kept. */
export type KeptBodies = {
  readonly path: string
  /** The content type of the answer. */
  readonly answerType: string
  bodies(): StoredBytes
}

/** Only what the row needs: the report refers to the whole request, which must not stay in memory until it is written. */
type WaitingBody = {
  readonly requestId: string
  readonly userId: number
  readonly tokenId: number
  readonly model: string
  readonly capture: BodyCapture
  readonly path: string
  readonly status: number
  readonly captured: CapturedExchange
  readonly createdTime: number
  /** Masked once, when the bytes are first needed. */
  stored?: StoredBytes
}

/** What follows from the settings, computed once for each version of them. */
type BodyRules = {
  readonly settings: Settings
  readonly models: ReadonlySet<string> | undefined
  readonly mask: Mask
}

const namesIn = (setting: string) => [...(modelsIn(setting) ?? [])]

const rulesOf = (settings: Settings): BodyRules => ({
  settings,
  models: modelsIn(settings.log_bodies_models),
  mask: createMask({
    keys: settings.body_mask_keys,
    emails: settings.body_mask_emails,
    cards: settings.body_mask_cards,
    fields: namesIn(settings.body_mask_fields),
  }),
})

/** The path of a request. Its query may contain a token, so only the parameter that changes the answer's form is kept. */
function pathOf({ url = '' }: RelayIncoming): string {
  const [path = '', query = ''] = url.split('?')
  if (query === '') return path
  return new URLSearchParams(query).get('alt') === 'sse' ? `${path}?alt=sse` : path
}

const isFailed = ({ code, settled }: RequestReport, status: number) =>
  code !== undefined || settled?.log.isError === true || status >= 400

function masked(bytes: Buffer, mask: Mask): Buffer {
  const text = bytes.toString('latin1')
  const clean = mask(text)
  return clean === text ? bytes : Buffer.from(clean, 'latin1')
}

/**
 * Keeps bodies (docs/operating/bodies.md: Which bodies are kept). They are masked, encrypted and written after the response,
 * in batches. If they arrive faster than the store takes them, or the store is unavailable, they are dropped and counted.
 */
export function createBodies({ seal, settings, write, random, now, onDropped, onFailure }: BodiesDeps) {
  let waiting: WaitingBody[] = []
  let waitingBytes = 0
  let running: Promise<void> | undefined
  let rules: BodyRules | undefined

  function currentRules(): BodyRules {
    const current = settings()
    if (rules?.settings !== current) rules = rulesOf(current)
    return rules
  }

  function isWanted(report: RequestReport, { mode }: BodyCapture, status: number): boolean {
    const { models, settings: current } = currentRules()
    if (models && !models.has(report.work?.model ?? '')) return false
    if (mode === 'all' || isFailed(report, status)) return true
    return mode === 'sampled' && random() < current.body_sample
  }

  function storedBytes(body: WaitingBody): StoredBytes {
    if (body.stored) return body.stored
    const { mask } = currentRules()
    const { request, answer } = body.captured
    body.stored = { request: masked(request.bytes, mask), answer: masked(answer.bytes, mask) }
    return body.stored
  }

  function rowOf(body: WaitingBody): BodyRow {
    const { requestId, userId, tokenId, model, path, status, captured, createdTime } = body
    const { request, answer } = storedBytes(body)
    const { parts } = captured.request
    const exchange: KeptExchange = {
      path,
      model,
      status,
      request: {
        size: captured.request.size,
        kept: request.length,
        type: captured.request.type,
        is_truncated: captured.request.bytes.length < captured.request.size,
        is_masked: request !== captured.request.bytes,
        ...(parts && { parts }),
      },
      answer: {
        size: captured.answer.size,
        kept: answer.length,
        type: captured.answer.type,
        is_truncated: captured.answer.bytes.length < captured.answer.size,
        is_masked: answer !== captured.answer.bytes,
      },
    }
    const content = seal.sealExchange(bodyPlace(requestId), { exchange, request, answer })
    return {
      request_id: requestId,
      user_id: userId,
      token_id: tokenId,
      created_time: createdTime,
      size: content.length,
      content,
    }
  }

  function nextBatch(): WaitingBody[] {
    let bytes = 0
    const end = waiting.findIndex((body, index) => {
      bytes += body.capture.bytes()
      return index > 0 && (index >= BATCH || bytes > BATCH_BYTES)
    })
    const batch = end < 0 ? waiting : waiting.slice(0, end)
    waiting = waiting.slice(batch.length)
    return batch
  }

  async function writeBatch(batch: readonly WaitingBody[]): Promise<void> {
    try {
      const rows: BodyRow[] = []
      let turnBytes = 0
      for (const body of batch) {
        rows.push(rowOf(body))
        turnBytes += body.capture.bytes()
        if (turnBytes < TURN_BYTES) continue
        // Masking a large body takes milliseconds. Other requests run in between.
        turnBytes = 0
        await setImmediate()
      }
      await write(rows)
    } catch (error) {
      onDropped(batch.length)
      onFailure(error as Error)
    } finally {
      for (const { capture } of batch) {
        waitingBytes -= capture.bytes()
        capture.end()
      }
    }
  }

  async function writeAll(): Promise<void> {
    while (waiting.length > 0) await writeBatch(nextBatch())
  }

  function flush(): Promise<void> {
    if (waiting.length > 0)
      running ??= writeAll().finally(() => {
        running = undefined
      })
    return running ?? Promise.resolve()
  }

  const timer = setInterval(() => void flush(), WRITE_EVERY_MS)
  timer.unref()

  return {
    /** Called after the response of a request whose caller wants bodies kept. Returns the bodies if they are. */
    end(report: RequestReport, request: RelayIncoming, response: RelayOutgoing): KeptBodies | undefined {
      const { capture } = report
      if (!capture) return undefined
      const { statusCode: status } = response
      if (!isWanted(report, capture, status)) {
        capture.end()
        return undefined
      }
      const captured = capture.exchange(request.headers['content-type'] ?? '')
      const bytes = capture.bytes()
      const isFull = waiting.length >= MAX_WAITING || waitingBytes + bytes > MAX_WAITING_BYTES
      if (captured === undefined || isFull) {
        onDropped(1)
        capture.end()
        return undefined
      }
      waitingBytes += bytes
      const path = pathOf(request)
      const { requestId, caller, work } = report
      const body: WaitingBody = {
        requestId,
        userId: caller?.userId ?? 0,
        tokenId: caller?.tokenId ?? 0,
        model: work?.model ?? '',
        capture,
        path,
        status,
        captured,
        createdTime: now(),
      }
      waiting.push(body)
      return { path, answerType: captured.answer.type, bodies: () => storedBytes(body) }
    },
    /** Stops the timer and writes the waiting bodies. */
    async close(): Promise<void> {
      clearInterval(timer)
      await flush()
      await flush()
    },
  }
}

export type Bodies = ReturnType<typeof createBodies>
