import { member } from '../domain/json-value.ts'
import { type PromptSize, sizeOf } from '../metering/prompt-size.ts'
import { type RequestReading, readRequest } from '../requests/request-fields.ts'
import { readTextInput } from '../requests/token-input.ts'
import { ENCODINGS, type Encoding } from './vectors.ts'

/** What routing and billing need of a request for embeddings. */
type EmbeddingFacts = PromptSize & {
  readonly model: string
  /** How many vectors are asked for. */
  readonly inputs: number
  /** The inputs are no texts, but tokens. */
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
