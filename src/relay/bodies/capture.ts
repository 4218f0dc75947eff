import { type BodyMode, MAX_BODY_BYTES } from '../../domain/body-log.ts'
import { type Budget, createShare } from '../../http/budget.ts'
import type { Form } from '../intake/form.ts'

const EMPTY: Buffer = Buffer.alloc(0)
const MIN_ANSWER_BYTES = 512
const TEXT_TYPE = /^(?:text\/|application\/(?:[\w.+-]*\+)?json)/i

/** The parts of a form, without the content of its fields and files. */
type FormParts = readonly { readonly name: string; readonly is_file: boolean; readonly size: number }[]

/** The bytes of one side. They are copies: the relay may reuse or release its own. */
export type CapturedSide = { readonly bytes: Buffer; readonly size: number; readonly type: string }

export type CapturedExchange = {
  readonly request: CapturedSide & { readonly parts?: FormParts }
  readonly answer: CapturedSide
}

/**
 * Collects the bodies of one request, at most 256 KiB of each side. The copies count against the memory of all bodies; if
 * that is used up, nothing is kept.
 */
export function createCapture(mode: BodyMode, memory: Budget) {
  const share = createShare(memory)
  let requestBytes = EMPTY
  let parts: FormParts | undefined
  /** Grows by doubling: a stream has many small chunks. */
  let answerBytes = EMPTY
  let answerSize = 0
  let answerKept = 0
  let answerType = ''
  let isFile = false
  let isShort = false

  function take(length: number): boolean {
    isShort ||= !share.take(length)
    return !isShort
  }

  /** False if there is no memory for so many bytes of the answer. */
  function hasRoomFor(length: number): boolean {
    if (length <= answerBytes.length) return true
    const newLength = Math.min(MAX_BODY_BYTES, Math.max(MIN_ANSWER_BYTES, length, answerBytes.length * 2))
    if (!take(newLength - answerBytes.length)) return false
    const larger = Buffer.allocUnsafe(newLength)
    answerBytes.copy(larger, 0, 0, answerKept)
    answerBytes = larger
    return true
  }

  return {
    mode,
    /** The body of the request. It is copied only if it is kept. */
    request(bytes: Buffer): void {
      requestBytes = bytes
    },
    form({ fields, files }: Pick<Form, 'fields' | 'files'>): void {
      parts = [
        ...fields.map(([name, value]) => ({ name, is_file: false, size: Buffer.byteLength(value) })),
        ...files.map(({ field, size }) => ({ name: field, is_file: true, size })),
      ]
    },
    /** The type of the answer. Only the size of a file, such as audio, is kept. */
    answerType(type: string): void {
      answerType = type
      isFile = !TEXT_TYPE.test(type)
    },
    /** Bytes that the client gets, in order. */
    answer(bytes: Buffer): void {
      answerSize += bytes.length
      const length = Math.min(bytes.length, MAX_BODY_BYTES - answerKept)
      if (length <= 0 || isFile || !hasRoomFor(answerKept + length)) return
      answerKept += bytes.copy(answerBytes, answerKept, 0, length)
    },
    /** The exchange, with copies of its bytes; undefined if there was no memory for them. `type`: of the request. */
    exchange(type: string): CapturedExchange | undefined {
      const length = Math.min(requestBytes.length, MAX_BODY_BYTES)
      if (!take(length)) return undefined
      // The buffer of a small request is a part of a larger one, which must not stay in memory for it.
      const bytes = Buffer.from(requestBytes.subarray(0, length))
      const size = requestBytes.length
      requestBytes = EMPTY
      return {
        request: { bytes, size, type, ...(parts && { parts }) },
        answer: { bytes: answerBytes.subarray(0, answerKept), size: answerSize, type: answerType },
      }
    },
    /** The memory that the copies take. */
    bytes: share.taken,
    /** Releases the copies. */
    end: share.end,
  }
}

export type BodyCapture = ReturnType<typeof createCapture>
