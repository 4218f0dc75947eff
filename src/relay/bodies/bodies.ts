import { setImmediate } from 'node:timers/promises'
import { modelsIn } from '../../domain/body-log.ts'
import { createMask, type Mask } from '../../domain/body-mask.ts'
import type { ExchangeTexts, PagedExchange } from '../../domain/body-page.ts'
import type { Settings } from '../../domain/setting.ts'
import type { Budget } from '../../http/budget.ts'
import type { RelayIncoming, RelayOutgoing } from '../../http/relay-exchange.ts'
import { type BodySeal, pagePlace, sealedLength } from '../../identity/body-seal.ts'
import type { BodyPageRow } from '../../store/engine/schema.ts'
import type { RequestReport } from '../request.ts'
import type { BodyCapture, CapturedExchange, CapturedSide } from './capture.ts'
import { type BodyStage, createStage, type StagedPage } from './stage.ts'

/** Bodies that wait for the store. Further ones are dropped. */
const MAX_WAITING_BYTES = 32 * 1_048_576
const MAX_WAITING = 10_000
/** A batch is one transaction, which occupies SQLite's writer for some milliseconds. */
const BATCH_PAGES = 128
const BATCH_BYTES = 2 * 1_048_576
const WRITE_EVERY_MS = 250
/** After this many bytes, other requests run. */
const TURN_BYTES = 64 * 1024
/** Bodies up to this size are masked with the end of their request. Masking a large one takes milliseconds. */
const SMALL_BYTES = 16 * 1024

type BodiesDeps = {
  readonly seal: BodySeal
  /** The memory of all bodies, which those that wait count against. */
  readonly memory: Budget
  settings(): Settings
  write(pages: readonly BodyPageRow[]): Promise<void>
  random(): number
  /** Unix seconds. */
  now(): number
  onDropped(count: number): void
  onFailure(error: Error): void
}

/** The bodies of a request that are kept. */
export type KeptBodies = {
  readonly path: string
  /** The content type of the answer. */
  readonly answerType: string
  /** As they are stored: masked, and at most 256 KiB of each. */
  bodies(): { readonly request: Buffer; readonly answer: Buffer }
}

/** Latin-1, with a character for each byte. */
type MaskedText = { readonly text: string; readonly isMasked: boolean }

/** Only what is stored: the report refers to the whole request, which must not stay in memory until it is written. */
type WaitingBody = {
  readonly requestId: string
  readonly userId: number
  readonly tokenId: number
  readonly model: string
  readonly capture: BodyCapture
  readonly path: string
  readonly status: number
  readonly captured: CapturedExchange
  /** Masked once, when the texts are first needed. */
  texts?: { readonly request: MaskedText; readonly answer: MaskedText }
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

function maskContent(content: Buffer | string, mask: Mask): MaskedText {
  const original = typeof content === 'string' ? content : content.toString('latin1')
  const text = mask(original)
  return { text, isMasked: text !== original }
}

const describeSide = ({ content, size, type }: CapturedSide, { text, isMasked }: MaskedText) => ({
  size,
  kept: text.length,
  type,
  is_truncated: content.length < size,
  is_masked: isMasked,
})

/** The pages of each transaction. */
function batchesOf(pages: readonly StagedPage[]): StagedPage[][] {
  const batches: StagedPage[][] = []
  let size = 0
  for (const page of pages) {
    const batch = batches.at(-1)
    size += page.size
    if (batch && batch.length < BATCH_PAGES && size <= BATCH_BYTES) batch.push(page)
    else {
      batches.push([page])
      size = page.size
    }
  }
  return batches
}

/**
 * Keeps bodies (docs/operating/bodies.md: Which bodies are kept). After the response they are masked and copied to a stage. From
 * there, the bodies of one user are encrypted together as pages, and written in batches. If they arrive faster than the store
 * takes them, or the store is unavailable, they are dropped and counted.
 */
export function createBodies({
  seal,
  memory,
  settings,
  write,
  random,
  now,
  onDropped,
  onFailure,
}: BodiesDeps) {
  /** Bodies that are too large to be masked at once. */
  const large: WaitingBody[] = []
  /** New bodies go to this one, while those of the other one are written. */
  let stage = createStage()
  let otherStage = createStage()
  let waitingCount = 0
  let waitingBytes = 0
  /** The bytes of a page. Nothing refers to them after the page is encrypted. */
  let plain = Buffer.alloc(0)
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

  function maskedTexts(body: WaitingBody) {
    if (body.texts) return body.texts
    const { mask } = currentRules()
    const { request, answer } = body.captured
    body.texts = { request: maskContent(request.content, mask), answer: maskContent(answer.content, mask) }
    return body.texts
  }

  function release(count: number, bytes: number): void {
    waitingCount -= count
    waitingBytes -= bytes
    memory.give(bytes)
  }

  function addToStage(body: WaitingBody): void {
    try {
      stage.add(body, textsOf(body), body.capture.bytes())
    } catch (error) {
      // There is no memory for a larger stage.
      release(1, body.capture.bytes())
      onDropped(1)
      onFailure(error as Error)
    }
  }

  function textsOf(body: WaitingBody): ExchangeTexts {
    const { path, model, status, requestId, tokenId, captured } = body
    const { request, answer } = maskedTexts(body)
    const { parts } = captured.request
    const side = describeSide(captured.request, request)
    const exchange: PagedExchange = {
      request_id: requestId,
      token_id: tokenId,
      path,
      model,
      status,
      request: parts ? { ...side, parts } : side,
      answer: describeSide(captured.answer, answer),
    }
    return { description: JSON.stringify(exchange), request: request.text, answer: answer.text }
  }

  /** Large bodies, until there are enough for a batch. Other requests run in between. */
  async function addLargeToStage(): Promise<void> {
    let turnBytes = 0
    while (large.length > 0 && stage.size() < BATCH_BYTES) {
      const body = large.shift() as WaitingBody
      addToStage(body)
      turnBytes += body.capture.bytes()
      if (turnBytes < TURN_BYTES) continue
      turnBytes = 0
      await setImmediate()
    }
  }

  /** Writes the encrypted page to the start of `target`. */
  function sealPage(from: BodyStage, page: StagedPage, target: Buffer): BodyPageRow {
    if (plain.length < page.size) plain = Buffer.allocUnsafeSlow(page.size)
    from.copyTo(plain, page)
    const [id, ...others] = page.bodies.map(({ requestId }) => requestId) as [string, ...string[]]
    const owner = { id, user_id: page.userId }
    const size = seal.sealTo(target, 0, pagePlace(owner), plain.subarray(0, page.size))
    return {
      ...owner,
      created_time: now(),
      size,
      other_requests: JSON.stringify(others),
      content: target.subarray(0, size),
    }
  }

  async function writeBatch(from: BodyStage, batch: readonly StagedPage[]): Promise<void> {
    const count = batch.reduce((sum, { bodies }) => sum + bodies.length, 0)
    const bytes = batch.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0)
    try {
      const pages: BodyPageRow[] = []
      // One buffer: each is copied to the thread of SQLite by itself, with all memory that it is a part of.
      let target = Buffer.allocUnsafeSlow(batch.reduce((sum, { size }) => sum + sealedLength(size), 0))
      let turnBytes = 0
      for (const page of batch) {
        const row = sealPage(from, page, target)
        pages.push(row)
        target = target.subarray(row.size)
        turnBytes += page.size
        if (turnBytes < TURN_BYTES) continue
        turnBytes = 0
        await setImmediate()
      }
      await write(pages)
    } catch (error) {
      onDropped(count)
      onFailure(error as Error)
    } finally {
      release(count, bytes)
    }
  }

  async function writeStage(): Promise<void> {
    await addLargeToStage()
    const full = stage
    stage = otherStage
    otherStage = full
    for (const batch of batchesOf(full.pages())) await writeBatch(full, batch)
    full.clear()
  }

  /** Bodies that arrive meanwhile wait for the next time: a page of few bodies costs as much as a large one. */
  async function writeAll(): Promise<void> {
    do await writeStage()
    while (large.length > 0 || stage.size() >= BATCH_BYTES)
  }

  function flush(): Promise<void> {
    if (waitingCount > 0)
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
      const isFull = waitingCount >= MAX_WAITING || waitingBytes + bytes > MAX_WAITING_BYTES
      if (captured === undefined || isFull) {
        onDropped(1)
        capture.end()
        return undefined
      }
      waitingCount += 1
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
      }
      if (captured.request.content.length + captured.answer.content.length <= SMALL_BYTES) addToStage(body)
      else large.push(body)
      return {
        path,
        answerType: captured.answer.type,
        // From the texts: the memory of the stage is used again.
        bodies() {
          const { request: requestText, answer: answerText } = maskedTexts(body)
          return {
            request: Buffer.from(requestText.text, 'latin1'),
            answer: Buffer.from(answerText.text, 'latin1'),
          }
        },
      }
    },
    /** Stops the timer and writes the waiting bodies. */
    async close(): Promise<void> {
      clearInterval(timer)
      while (waitingCount > 0) await flush()
    },
  }
}

export type Bodies = ReturnType<typeof createBodies>
