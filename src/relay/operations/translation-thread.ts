import type { ChatRequest } from '../../chat/hub/hub.ts'
import { inboundOf } from '../../chat/index.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Usage } from '../../domain/usage.ts'
import { runJobs } from '../../host/thread-jobs.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { createIdsAndClock } from '../ids-and-clock.ts'
import type { AnswerReading, ClientAnswer } from './channel-request.ts'
import { type AnswerTranslation, translateAnswer } from './chat-answer.ts'
import { mustRead } from './request-reader.ts'
import { type TranslatedRequest, type TranslationTarget, translateRequest } from './translate-request.ts'

/** A document in memory shared by both threads. */
type SharedBytes = Uint8Array<SharedArrayBuffer>

/** A client's request. */
export type SharedRequest = {
  readonly format: string
  readonly address: RequestAddress | undefined
  readonly bytes: SharedBytes
}

/** A provider's answer, and how to translate it. */
export type SharedAnswer = { readonly bytes: SharedBytes; readonly translation: AnswerTranslation }

/** A task for the thread. Each task is self-contained: the task before it may have run on a thread that has ended. */
export type TranslationTask =
  | { readonly kind: 'request'; readonly request: SharedRequest; readonly target: TranslationTarget }
  | { readonly kind: 'answer'; readonly answer: SharedAnswer }
  /** Writes the answer with its counted usage. */
  | { readonly kind: 'write'; readonly answer: SharedAnswer; readonly usage: Usage }

export type TranslationJob =
  /** `workId`: the work that the task belongs to. */
  | { readonly workId: number; readonly task: TranslationTask }
  /** The work is done: the thread drops its state. */
  | { readonly endedWorkId: number }

/** The reading of an answer without its functions, which cannot be posted to a thread. */
export type AnswerReport = Omit<AnswerReading, 'answer' | 'sample'> & {
  readonly sampleText?: string
  /** Absent: the answer has a fault, or is written once its usage is counted. */
  readonly written?: ClientAnswer
}

export type TranslationResults = {
  readonly request: TranslatedRequest | undefined
  readonly answer: AnswerReport
  readonly write: ClientAnswer
}

type RefusalFields = Pick<Refusal, 'code' | 'message' | 'errors'>

/** An error class does not survive structured cloning, so a refusal is a result. */
export type TranslationDone =
  | { readonly result: TranslationResults[keyof TranslationResults] }
  | { readonly refusal: RefusalFields }

/** The state of a work until it is done. Its request is parsed once, for all channels that it is translated for. */
type WorkState = { request?: ChatRequest; write?: (usage: Usage) => ClientAnswer | Promise<ClientAnswer> }

const works = new Map<number, WorkState>()
const idsAndClock = createIdsAndClock(Date.now)

const bufferOf = ({ buffer, byteOffset, byteLength }: SharedBytes) =>
  Buffer.from(buffer, byteOffset, byteLength) as Buffer

function decode({ format: name, address, bytes }: SharedRequest): ChatRequest {
  const format = inboundOf(name)
  if (format === undefined) throw new Error(`no such format: ${name}`)
  return mustRead(format.decodeRequest(JSON.parse(bufferOf(bytes).toString('utf8')), address))
}

async function report(reading: AnswerReading, state: WorkState): Promise<AnswerReport> {
  const { answer, sample, ...fields } = reading
  const reported = sample ? { ...fields, sampleText: sample.text() } : fields
  if (typeof answer !== 'function') return answer ? { ...reported, written: answer } : reported
  if (reading.usage) return { ...reported, written: await answer(reading.usage) }
  state.write = answer
  return reported
}

const translate = ({ bytes, translation }: SharedAnswer) =>
  translateAnswer(bufferOf(bytes), translation, idsAndClock)

async function write({ answer, usage }: TranslationTask & { readonly kind: 'write' }, state: WorkState) {
  if (state.write === undefined) await report(await translate(answer), state)
  if (state.write === undefined) throw new Error('this answer is written without a counted usage')
  return state.write(usage)
}

async function run(task: TranslationTask, state: WorkState) {
  switch (task.kind) {
    case 'request':
      state.request ??= decode(task.request)
      return translateRequest(state.request, task.target)
    case 'answer':
      return report(await translate(task.answer), state)
    case 'write':
      return write(task, state)
  }
}

function stateOf(workId: number): WorkState {
  const state = works.get(workId) ?? {}
  works.set(workId, state)
  return state
}

async function runJob(job: TranslationJob): Promise<TranslationDone | undefined> {
  if ('endedWorkId' in job) {
    works.delete(job.endedWorkId)
    return undefined
  }
  try {
    return { result: await run(job.task, stateOf(job.workId)) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { code, message, errors } = error
    return { refusal: { code, message, errors } }
  }
}

/** A body with an ArrayBuffer of its own is transferred. A small one may share its ArrayBuffer with other buffers. */
function ownMemory(done: TranslationDone | undefined): ArrayBuffer[] {
  const { result } = done && 'result' in done ? done : {}
  const body =
    result && ('body' in result ? result.body : 'written' in result ? result.written?.body : undefined)
  return body && body.length === body.buffer.byteLength ? [body.buffer as ArrayBuffer] : []
}

runJobs(runJob, { transfer: ownMemory })
