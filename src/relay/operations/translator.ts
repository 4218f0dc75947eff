import { Refusal } from '../../domain/errors.ts'
import { BUDGET_SHORTAGES } from '../../domain/shortage.ts'
import { createOnDemandThread, ThreadEndedError } from '../../host/on-demand-thread.ts'
import { programFile } from '../../host/program-file.ts'
import { type Budget, createShare, overloaded } from '../../http/budget.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { shareInSlices } from '../../wire/json-slices.ts'
import type { AnswerReading, ClientAnswer } from './channel-request.ts'
import type { AnswerTranslation } from './chat-answer.ts'
import type { TranslatedRequest, TranslationTarget } from './translate-request.ts'
import type {
  AnswerReport,
  SharedAnswer,
  SharedRequest,
  TranslationDone,
  TranslationJob,
  TranslationResults,
  TranslationTask,
} from './translation-thread.ts'

/** The documents of one request that are translated on a worker thread. */
export type ThreadTranslation = {
  /** Translates the request for one more channel; undefined: the client's own bytes can be sent. */
  translateRequest(target: TranslationTarget): Promise<TranslatedRequest | undefined>
  translateAnswer(body: Buffer, translation: AnswerTranslation): Promise<AnswerReading>
  /** Must be called when the work is done. */
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

const TOO_LARGE = 'The request is too large to translate for the provider. Send fewer or shorter messages.'

type TranslatorOptions = {
  /** The memory budget that the copies for the thread count against. */
  readonly memory: Budget
  onFailure(error: Error): void
}

/**
 * Translates large documents on a worker thread: a conversation of many messages would block the event loop for seconds.
 * A document that exceeds the thread's memory limit ends the thread and is refused.
 */
export function createTranslator({ memory, onFailure }: TranslatorOptions): Translator {
  const thread = createOnDemandThread<TranslationJob, TranslationDone | undefined>({
    program: programFile('relay/operations/translation-thread'),
    maxHeapMb: MAX_HEAP_MB,
    idleMs: IDLE_MS,
    onFailure,
  })
  let nextWorkId = 0

  async function run<Kind extends keyof TranslationResults>(
    workId: number,
    task: TranslationTask & { readonly kind: Kind },
  ): Promise<TranslationResults[Kind]> {
    const done = await thread.run({ workId, task })
    if (done === undefined) throw new Error('a task has no result')
    if ('result' in done) return done.result as TranslationResults[Kind]
    const { code, message, errors } = done.refusal
    throw new Refusal(code, message, errors ? { errors } : {})
  }

  function open({ format, address, bytes }: Parameters<Translator['open']>[0]): ThreadTranslation {
    const workId = nextWorkId++
    const share = createShare(memory)
    let isUsed = false
    let shared: Promise<SharedRequest> | undefined

    async function shareRequest(): Promise<SharedRequest> {
      if (!share.take(bytes.length)) throw overloaded(BUDGET_SHORTAGES.memory)
      return { format, address, bytes: await shareInSlices(bytes) }
    }

    return {
      async translateRequest(target) {
        isUsed = true
        shared ??= shareRequest()
        const request = await shared
        const translated = await run(workId, { kind: 'request', request, target }).catch(refuseTooLarge)
        return translated && withBuffer(translated)
      },
      async translateAnswer(body, translation) {
        isUsed = true
        // The provider has been paid, so its answer is translated even if the budget is used up.
        share.take(body.length)
        const answer: SharedAnswer = { bytes: await shareInSlices(body), translation }
        const report = await run(workId, { kind: 'answer', answer }).catch(faultOfTooLarge)
        // An answer that contains the usage is written in a second task, after the gateway has counted it.
        return readingOf(report, async usage =>
          withBuffer(await run(workId, { kind: 'write', answer, usage })),
        )
      },
      end() {
        share.end()
        if (isUsed) thread.notify({ endedWorkId: workId })
      },
    }
  }

  return { open, close: thread.close }
}

/** Whether the document exceeded the thread's memory limit. */
const isTooLarge = (error: unknown) => error instanceof ThreadEndedError && error.endedBy === 'job'

function refuseTooLarge(error: unknown): never {
  throw isTooLarge(error) ? new Refusal('request_too_large', TOO_LARGE) : error
}

function faultOfTooLarge(error: unknown): AnswerReport {
  if (!isTooLarge(error)) throw error
  return { usage: undefined, outputBytes: 0, fault: 'the response is too large to translate' }
}

/** Structured cloning turns buffers into byte arrays. */
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
