import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import { codePoints, hasControl } from '../domain/text.ts'
import { DECISIVE } from './field-names.ts'

/** The first invalid field, named by `param` (docs/reference/relay-api.md: Request bodies). */
export type RequestFault = {
  readonly param: string | null
  readonly code: 'invalid_json' | 'missing_parameter' | 'invalid_parameter'
  readonly message: string
}

/** The part of a request that is in its URL (gemini, bedrock: the model and the stream flag). */
export type RequestAddress = { readonly model?: string; readonly stream?: boolean }

export type RequestReading<Facts> = { readonly request: Facts } | { readonly fault: RequestFault }

/** Reads fields of a body and records the first fault. A null or invalid field reads as absent. */
export type RequestFields = {
  /** An absent, null or empty field is a `missing_parameter` (docs/reference/relay-api.md: Request bodies). */
  required(name: string): unknown
  model(): string
  flag(name: string): boolean
  /** An integer; the default minimum is 1. */
  integer(name: string, max?: number, min?: number): number | undefined
  /** The largest output limit under any of its names: hosts support different ones. */
  outputLimit(least?: number): number | undefined
  number(name: string, min: number, max: number): number | undefined
  text(name: string): string | undefined
  /** One of these values. */
  choice<Word extends string>(name: string, words: readonly Word[]): Word | undefined
  /** `stream_options.include_usage` */
  includeUsage(): boolean
  refuse(param: string, message: string): void
  fault(): RequestFault | undefined
}

export const MAX_MODEL_LENGTH = 255
/** No answer is that long, so a higher limit is a mistake; multiplied by a price it would be inexact. */
export const MAX_LIMIT = 1e12

/** Checks a parsed body. `read` returns the facts from its fields; they are discarded if a field is invalid. */
export function readRequest<Facts>(
  parsed: unknown,
  read: (fields: RequestFields, body: JsonObject) => Facts | undefined,
): RequestReading<Facts> {
  if (!isObject(parsed)) {
    return { fault: { param: null, code: 'invalid_json', message: 'The body must be a JSON object.' } }
  }
  const fields = new BodyFields(parsed)
  const request = read(fields, parsed)
  const fault = fields.fault()
  if (fault !== undefined) return { fault }
  if (request === undefined) throw new Error('a request was refused without a fault')
  return { request }
}

/** An object of a class, because every request has one: its methods as closures took 1 KB. */
class BodyFields implements RequestFields {
  readonly #body: JsonObject
  #first: RequestFault | undefined

  constructor(body: JsonObject) {
    this.#body = body
  }

  fault(): RequestFault | undefined {
    return this.#first
  }

  refuse(param: string, message: string): void {
    this.#note('invalid_parameter', param, message)
  }

  required(name: string): unknown {
    const value = this.#value(name)
    if (value === undefined || value === '') this.#note('missing_parameter', name, 'is missing')
    return value
  }

  model(): string {
    const model = this.required('model')
    if (typeof model !== 'string') {
      if (model !== undefined) this.refuse('model', 'must be a string')
      return ''
    }
    if (codePoints(model) > MAX_MODEL_LENGTH) {
      this.refuse('model', `must have at most ${MAX_MODEL_LENGTH} characters`)
    }
    if (hasControl(model) || !model.isWellFormed()) {
      this.refuse('model', 'must be valid Unicode without control characters')
    }
    return model
  }

  flag(name: string): boolean {
    return this.#isTrue(this.#value(name), name)
  }

  outputLimit(least = 1): number | undefined {
    let greatest: number | undefined
    for (const name of DECISIVE.outputLimit) {
      const limit = this.integer(name, MAX_LIMIT, least)
      if (limit !== undefined && limit > (greatest ?? -1)) greatest = limit
    }
    return greatest
  }

  number(name: string, min: number, max: number): number | undefined {
    const value = this.#value(name)
    if (value === undefined) return undefined
    if (typeof value === 'number' && value >= min && value <= max) return value
    this.refuse(name, `must be a number from ${min} to ${max}`)
    return undefined
  }

  text(name: string): string | undefined {
    const value = this.#value(name)
    if (value === undefined || typeof value === 'string') return value
    this.refuse(name, 'must be a string')
    return undefined
  }

  choice<Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    const value = this.#value(name)
    const word = words.find(each => each === value)
    if (value !== undefined && word === undefined) this.refuse(name, `must be one of ${words.join(', ')}`)
    return word
  }

  includeUsage(): boolean {
    const options = this.#value('stream_options')
    if (options === undefined) return false
    if (!isObject(options)) this.refuse('stream_options', 'must be an object')
    return this.#isTrue(member(options, 'include_usage') ?? undefined, 'stream_options.include_usage')
  }

  integer(name: string, max = Number.MAX_SAFE_INTEGER, min = 1): number | undefined {
    const value = this.#value(name)
    if (value === undefined) return undefined
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value
    const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`
    this.refuse(name, `must be an integer ${range}`)
    return undefined
  }

  #value(name: string): unknown {
    return member(this.#body, name) ?? undefined
  }

  #isTrue(value: unknown, param: string): boolean {
    if (value !== undefined && typeof value !== 'boolean') this.refuse(param, 'must be true or false')
    return value === true
  }

  #note(code: RequestFault['code'], param: string, message: string): void {
    this.#first ??= { param, code, message: `${param} ${message}` }
  }
}
