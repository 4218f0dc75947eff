import { member } from '../domain/json-value.ts'
import { type PromptSize, sizeOf } from '../metering/prompt-size.ts'
import { type RequestReading, readRequest } from '../requests/request-fields.ts'
import { readTextInput } from '../requests/token-input.ts'
import { ENCODINGS, type Encoding } from './vectors.ts'

/** The facts of an embedding request that routing and billing need. */
type EmbeddingFacts = PromptSize & {
  readonly model: string
  /** The number of requested vectors. */
  readonly inputs: number
  /** The inputs are tokens, not texts. */
  readonly isTokens: boolean
  readonly encoding: Encoding
  readonly dimensions: number | undefined
}

export function readEmbeddingRequest(parsed: unknown): RequestReading<EmbeddingFacts> {
  return readRequest(parsed, (fields, body) => {
    const model = fields.model()
    const input = readTextInput(fields, 'input')
    const dimensions = fields.integer('dimensions')
    const requestedEncoding = member(body, 'encoding_format') ?? 'float'
    const encoding = ENCODINGS.find(each => each === requestedEncoding)
    if (encoding === undefined) fields.refuse('encoding_format', `must be ${ENCODINGS.join(' or ')}`)
    if (input === undefined || encoding === undefined) return undefined
    const { textBytes, media } = sizeOf(body, ['input'])
    return {
      model,
      inputs: input.count,
      isTokens: input.isTokens,
      encoding,
      dimensions,
      textBytes: textBytes + input.tokens,
      media,
    }
  })
}
