import { type BodyMode, MAX_BODY_BYTES } from '../../domain/body-log.ts'
import type { Budget } from '../../http/budget.ts'
import type { Form } from '../intake/form-content.ts'

const EMPTY: Buffer = Buffer.alloc(0)
const MIN_ANSWER_BYTES = 512
const TEXT_TYPE = /^(?:text\/|application\/(?:[\w.+-]*\+)?json)/i

/** The parts of a form, without the content of its fields and files. */
type FormParts = readonly { readonly name: string; readonly is_file: boolean; readonly size: number }[]

/**
 * The content of one side: bytes, or a Latin-1 text with a character for each byte if it is small. Bytes are copies: the relay
 * may reuse or release its own. A small buffer would be an object outside of V8's heap, which costs more than its text.
 */
export type CapturedSide = { readonly content: Buffer | string; readonly size: number; readonly type: string }

export type CapturedExchange = {
  readonly request: CapturedSide & { readonly parts?: FormParts }
  readonly answer: CapturedSide
}

/** Bodies up to this size are captured as texts. */
const MAX_TEXT_BYTES = 16 * 1024

const contentOf = (bytes: Buffer): Buffer | string =>
  bytes.length <= MAX_TEXT_BYTES ? bytes.toString('latin1') : Buffer.from(bytes)

/**
 * Collects the bodies of one request, at most 256 KiB of each side. The copies count against the memory of all bodies; if
 * that is used up, nothing is kept.
 */
export class BodyCapture {
  readonly mode: BodyMode
  readonly #memory: Budget
  #takenBytes = 0
  #requestBytes = EMPTY
  #parts: FormParts | undefined
  /** The whole answer, if it is small; otherwise it is in `answerBytes`, which grow by doubling: a stream has many small chunks. */
  #answerText = ''
  #answerBytes = EMPTY
  #answerSize = 0
  #answerKept = 0
  #answerType = ''
  #isFile = false
  #isShort = false
  #hasEnded = false

  constructor(mode: BodyMode, memory: Budget) {
    this.mode = mode
    this.#memory = memory
  }

  #take(length: number): boolean {
    if (this.#isShort || !this.#memory.take(length)) {
      this.#isShort = true
      return false
    }
    this.#takenBytes += length
    return true
  }

  /** False if there is no memory for so many bytes of the answer. */
  #hasRoomFor(length: number): boolean {
    if (length <= this.#answerBytes.length) return true
    const newLength = Math.min(
      MAX_BODY_BYTES,
      Math.max(MIN_ANSWER_BYTES, length, this.#answerBytes.length * 2),
    )
    if (!this.#take(newLength - this.#answerBytes.length)) return false
    const larger = Buffer.allocUnsafe(newLength)
    this.#answerBytes.copy(larger, 0, 0, this.#answerKept)
    this.#answerBytes = larger
    return true
  }

  /** The body of the request. It is copied only if it is kept. */
  request(bytes: Buffer): void {
    this.#requestBytes = bytes
  }

  form({ fields, files }: Pick<Form, 'fields' | 'files'>): void {
    this.#parts = [
      ...fields.map(([name, value]) => ({ name, is_file: false, size: Buffer.byteLength(value) })),
      ...files.map(({ field, size }) => ({ name: field, is_file: true, size })),
    ]
  }

  /** The type of the answer. Only the size of a file, such as audio, is kept. */
  answerType(type: string): void {
    this.#answerType = type
    this.#isFile = !TEXT_TYPE.test(type)
  }

  /** Bytes that the client gets, in order. */
  answer(bytes: Buffer): void {
    this.#answerSize += bytes.length
    const length = Math.min(bytes.length, MAX_BODY_BYTES - this.#answerKept)
    if (length <= 0 || this.#isFile || this.#hasEnded || !this.#hasRoomFor(this.#answerKept + length)) return
    this.#answerKept += bytes.copy(this.#answerBytes, this.#answerKept, 0, length)
  }

  /** The last bytes that the client gets; `text`: the same as a Latin-1 text. */
  lastAnswer(bytes: Buffer, text: string): void {
    if (this.#answerSize > 0 || text.length > MAX_TEXT_BYTES) {
      this.answer(bytes)
      return
    }
    this.#answerSize = text.length
    if (this.#isFile || this.#hasEnded || !this.#take(text.length)) return
    this.#answerText = text
  }

  /**
   * The exchange, with copies of its bytes; undefined if there was no memory for them. Later bytes are not kept. `type`: of the
   * request.
   */
  exchange(type: string): CapturedExchange | undefined {
    this.#hasEnded = true
    const size = this.#requestBytes.length
    // The buffer of a small request is a part of a larger one, which must not stay in memory for it.
    const bytes = size > MAX_BODY_BYTES ? this.#requestBytes.subarray(0, MAX_BODY_BYTES) : this.#requestBytes
    this.#requestBytes = EMPTY
    if (!this.#take(bytes.length)) return undefined
    const parts = this.#parts
    const request = { content: contentOf(bytes), size, type }
    return {
      request: parts ? { ...request, parts } : request,
      answer: { content: this.#answerContent(), size: this.#answerSize, type: this.#answerType },
    }
  }

  #answerContent(): Buffer | string {
    if (this.#answerKept === 0) return this.#answerText
    const bytes = this.#answerBytes.subarray(0, this.#answerKept)
    return bytes.length <= MAX_TEXT_BYTES ? bytes.toString('latin1') : bytes
  }

  /** The memory that the copies take. */
  bytes(): number {
    return this.#takenBytes
  }

  /** Releases the copies. */
  end(): void {
    this.#hasEnded = true
    this.#memory.give(this.#takenBytes)
    this.#takenBytes = 0
  }
}
