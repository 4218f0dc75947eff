import { Worker } from 'node:worker_threads'
import { Refusal } from '../../domain/errors.ts'
import { programFile } from '../../host/program-file.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { shareInSlices } from '../../wire/json-slices.ts'
import type { AnswerReading, ClientAnswer } from './channel-request.ts'
import type { AnswerTranslation } from './chat-answer.ts'
import type { TranslatedRequest, TranslationTarget } from './translate-request.ts'
import type {
  AnswerReport,
  SharedRequest,
  TranslationDone,
  TranslationJob,
  TranslationResults,
  TranslationTask,
} from './translation-thread.ts'

/** The documents of one work that are translated on a thread. */
export type ThreadTranslation = {
  /** The request for one more channel; undefined: its own bytes will do. */
  translateRequest(target: TranslationTarget): Promise<TranslatedRequest | undefined>
  translateAnswer(body: Buffer, translation: AnswerTranslation): Promise<AnswerReading>
  /** To be called when the work is done. */
  end(): void
}

export type Translator = {
  open(request: {
    readonly format: string
    readonly address: RequestAddress | undefined
    readonly bytes: Buffer
  }): ThreadTranslation
  close(): Promise<void>
}

const IDLE_MS = 60_000
const MAX_HEAP_MB = 1_024

type Result = TranslationResults[keyof TranslationResults]

/**
 * Translates large documents on a thread: a conversation of many messages takes seconds, in which the event loop would stand
 * still. The first document starts the thread, which ends when it has been idle.
 */
export function createTranslator({ onFailure }: { onFailure(error: Error): void }): Translator {
  const pending = new Map<number, PromiseWithResolvers<Result>>()
  let worker: Worker | undefined
  let idle: NodeJS.Timeout | undefined
  let nextId = 0

  function settle(done: TranslationDone): void {
    const { resolve, reject } = pending.get(done.id) ?? {}
    pending.delete(done.id)
    if ('result' in done) resolve?.(done.result)
    else if ('refusal' in done) {
      const { code, message, errors } = done.refusal
      reject?.(new Refusal(code, message, errors ? { errors } : {}))
    } else reject?.(done.failure)
  }

  function start(): Worker {
    const started = new Worker(programFile('relay/operations/translation-thread'), {
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    })
    started.unref()
    started.on('message', settle)
    started.on('error', error => onFailure(error as Error))
    started.on('exit', () => {
      if (worker === started) worker = undefined
      for (const { reject } of pending.values()) reject(new Error('the translation thread ended'))
      pending.clear()
    })
    return started
  }

  async function stop(): Promise<void> {
    clearTimeout(idle)
    await worker?.terminate()
  }

  function stopWhenIdle(): void {
    clearTimeout(idle)
    idle = setTimeout(() => (pending.size === 0 ? stop() : stopWhenIdle()), IDLE_MS).unref()
  }

  function run<Kind extends keyof TranslationResults>(
    work: number,
    task: TranslationTask & { readonly kind: Kind },
  ): Promise<TranslationResults[Kind]> {
    worker ??= start()
    stopWhenIdle()
    const id = nextId++
    const waiting = Promise.withResolvers<Result>()
    pending.set(id, waiting)
    worker.postMessage({ id, work, task } satisfies TranslationJob)
    return waiting.promise as Promise<TranslationResults[Kind]>
  }

  function open({ format, address, bytes }: Parameters<Translator['open']>[0]): ThreadTranslation {
    const work = nextId++
    let isUsed = false
    let shared: Promise<SharedRequest> | undefined
    return {
      async translateRequest(target) {
        isUsed = true
        shared ??= shareInSlices(bytes).then(copy => ({ format, address, bytes: copy }))
        const translated = await run(work, { kind: 'request', request: await shared, target })
        return translated && withBuffer(translated)
      },
      async translateAnswer(body, translation) {
        isUsed = true
        const report = await run(work, { kind: 'answer', bytes: await shareInSlices(body), translation })
        return readingOf(report, async usage => withBuffer(await run(work, { kind: 'write', usage })))
      },
      end() {
        if (isUsed) worker?.postMessage({ endedWork: work } satisfies TranslationJob)
      },
    }
  }

  return { open, close: stop }
}

/** A message carries bytes, no buffers. */
function withBuffer<Carrier extends ClientAnswer | TranslatedRequest>(carrier: Carrier): Carrier {
  const { buffer, byteOffset, byteLength } = carrier.body
  return { ...carrier, body: Buffer.from(buffer, byteOffset, byteLength) }
}

function readingOf(
  { sampleText, written: clientAnswer, ...reading }: AnswerReport,
  write: Exclude<AnswerReading['answer'], ClientAnswer | undefined>,
): AnswerReading {
  const sample = sampleText === undefined ? undefined : { text: () => sampleText }
  if (reading.fault !== undefined) return reading
  return { ...reading, ...(sample && { sample }), answer: clientAnswer ? withBuffer(clientAnswer) : write }
}
