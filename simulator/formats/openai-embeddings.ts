import { ProviderError } from '../provider-error.ts'
import { vectorOf } from '../vector.ts'
import type { Inquiry, Reply } from './format.ts'
import { countPassage, decodeCount, decodePassages, decodeRequest, type Passage } from './openai-request.ts'

const INPUT_LIMIT = 2048
const DIMENSIONS = 1536
const DIMENSION_LIMIT = 3072

const ENCODINGS = { float: (vector: Float32Array) => [...vector], base64: encodeBase64 } as const

export function answerEmbeddings({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const inputs = decodePassages(request, 'input', INPUT_LIMIT)
  if (inputs.includes('')) throw new ProviderError('bad_value', "'input' must not be empty.", 'input')
  const dimensions = decodeCount(request, 'dimensions', DIMENSION_LIMIT) ?? DIMENSIONS
  const encode = encodingOf(request.encoding_format)
  const promptTokens = inputs.reduce((sum, input) => sum + countPassage(input), 0)
  const answer = {
    object: 'list',
    data: inputs.map((input, index) => ({
      object: 'embedding',
      index,
      embedding: encode(vectorOf(seedOf(input), dimensions)),
    })),
    model,
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  }
  // The answer has no id; a client can only cite the header `x-request-id`.
  const bill = { id: `req_${id}`, model, promptTokens }
  return { kind: 'whole', body: JSON.stringify(answer), tokens: 0, bill }
}

function encodingOf(name: unknown): (vector: Float32Array) => unknown {
  if (name === undefined || name === null) return ENCODINGS.float
  if (name === 'float' || name === 'base64') return ENCODINGS[name]
  throw new ProviderError('bad_value', "'encoding_format' must be float or base64.", 'encoding_format')
}

function seedOf(input: Passage): string {
  return typeof input === 'string' ? input : input.join(' ')
}

function encodeBase64(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4)
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, at * 4)
  return bytes.toString('base64')
}
