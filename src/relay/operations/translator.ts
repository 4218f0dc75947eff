import { Worker } from 'node:worker_threads'
import { Refusal } from '../../domain/errors.ts'
import { programFile } from '../../host/program-file.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { shareInSlices } from '../../wire/json-slices.ts'
import type { TranslatedRequest, TranslationTarget } from './translate-request.ts'
import type { SharedRequest, TranslationDone, TranslationJob } from './translation-thread.ts'

/** A large request that is translated on a thread, for one channel after the other. */
export type ThreadTranslation = {
  translate(target: TranslationTarget): Promise<TranslatedRequest | undefined>
  /** To be called when no channel is asked any more. */
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

type Pending = ReturnType<typeof Promise.withResolvers<TranslatedRequest | undefined>>

/**
 * Translates large requests on a thread: a conversation of many messages takes seconds, in which the event loop would stand
 * still. The first request starts the thread, which ends when it has been idle.
 */
export function createTranslator({ onFailure }: { onFailure(error: Error): void }): Translator {
  const pending = new Map<number, Pending>()
  let worker: Worker | undefined
  let idle: NodeJS.Timeout | undefined
  let nextId = 0

  function settle(done: TranslationDone): void {
    const { resolve, reject } = pending.get(done.id) ?? {}
    pending.delete(done.id)
    if ('translated' in done) resolve?.(done.translated && withBuffer(done.translated))
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

  function post(job: TranslationJob): void {
    worker ??= start()
    clearTimeout(idle)
    idle = setTimeout(() => (pending.size === 0 ? stop() : undefined), IDLE_MS).unref()
    worker.postMessage(job)
  }

  return {
    open({ format, address, bytes }) {
      const requestId = nextId++
      let shared: Promise<SharedRequest> | undefined
      return {
        async translate(target) {
          shared ??= shareInSlices(bytes).then(copy => ({ id: requestId, format, address, bytes: copy }))
          const request = await shared
          const id = nextId++
          const waiting = Promise.withResolvers<TranslatedRequest | undefined>()
          pending.set(id, waiting)
          post({ id, request, target })
          return waiting.promise
        },
        end() {
          if (shared && worker) worker.postMessage({ forgotten: requestId } satisfies TranslationJob)
        },
      }
    },
    close: stop,
  }
}

/** A message carries bytes, no buffers. */
const withBuffer = (translated: TranslatedRequest): TranslatedRequest => {
  const { buffer, byteOffset, byteLength } = translated.body
  return { ...translated, body: Buffer.from(buffer, byteOffset, byteLength) }
}
