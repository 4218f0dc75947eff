import { parentPort } from 'node:worker_threads'
import type { ChatRequest } from '../../chat/hub/hub.ts'
import { FORMATS } from '../../chat/index.ts'
import { Refusal } from '../../domain/errors.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { mustRead } from './request-reader.ts'
import { type TranslatedRequest, type TranslationTarget, translateRequest } from './translate-request.ts'

/** A client's request, in memory that both threads have. */
export type SharedRequest = {
  readonly id: number
  readonly format: string
  readonly address: RequestAddress | undefined
  readonly bytes: Uint8Array<SharedArrayBuffer>
}

export type TranslationJob =
  | { readonly id: number; readonly request: SharedRequest; readonly target: TranslationTarget }
  /** No channel is asked this request any more. */
  | { readonly forgotten: number }

type RefusalFields = Pick<Refusal, 'code' | 'message' | 'errors'>

export type TranslationDone = {
  readonly id: number
} & (
  | { readonly translated: TranslatedRequest | undefined }
  | { readonly refusal: RefusalFields }
  | { readonly failure: Error }
)

/** Requests that were decoded, until their last channel has been asked: each is parsed once. */
const decoded = new Map<number, ChatRequest>()

function decode({ id, format: name, address, bytes }: SharedRequest): ChatRequest {
  const existing = decoded.get(id)
  if (existing) return existing
  const format = FORMATS.find(each => each.name === name)
  if (format === undefined) throw new Error(`no such format: ${name}`)
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
  const request = mustRead(format.decodeRequest(JSON.parse(text), address))
  decoded.set(id, request)
  return request
}

function work({ id, request, target }: Extract<TranslationJob, { target: unknown }>): TranslationDone {
  try {
    return { id, translated: translateRequest(decode(request), target) }
  } catch (error) {
    if (!(error instanceof Refusal)) return { id, failure: error as Error }
    const { code, message, errors } = error
    return { id, refusal: { code, message, errors } }
  }
}

parentPort?.on('message', (job: TranslationJob) => {
  if ('forgotten' in job) {
    decoded.delete(job.forgotten)
    return
  }
  const done = work(job)
  const body = 'translated' in done ? done.translated?.body : undefined
  // A body of its own memory is handed over; a small one lies in memory that others use too.
  const isWholeBuffer = body !== undefined && body.length === body.buffer.byteLength
  parentPort?.postMessage(done, isWholeBuffer ? [body.buffer as ArrayBuffer] : [])
})
