import { gemini } from '../../chat/gemini/format.ts'
import type { JsonObject } from '../../domain/json-value.ts'
import { warningsHeader } from '../../domain/warning.ts'
import type { EmbeddingAsk, EmbeddingDialect, Vector } from '../../media/embedding.ts'
import {
  embeddingAskOf,
  embeddingUsage,
  encodeCommonEmbedding,
  readCommonVectors,
  writeVectors,
  writeVectorsInSlices,
} from '../../media/embedding.ts'
import { readEmbeddingRequest } from '../../media/embedding-request.ts'
import {
  decodeEmbedding,
  encodeVectors,
  hasVectors,
  readEmbeddingTokens,
  withModel,
} from '../../media/gemini-embedding.ts'
import {
  type Encoding,
  encodeEmbeddings,
  encodeEmbeddingsInSlices,
  isEncodedOtherwise,
} from '../../media/vectors.ts'
import { inputBound, type PromptSize, sizeOf } from '../../metering/prompt-size.ts'
import { promptText } from '../../metering/prompt-text.ts'
import { createStreamMeter } from '../../metering/stream-meter.ts'
import { type FormatName, formatsFor, type Provider } from '../../providers/index.ts'
import { checkModel } from '../../requests/facts.ts'
import { NO_TOOLS } from '../../requests/provider-tools.ts'
import type { RequestFault } from '../../requests/request-fields.ts'
import { SKIM_BYTES } from '../../wire/json-skim.ts'
import { parseInSlices, SLICED_BYTES, writeInSlices } from '../../wire/json-slices.ts'
import { JSON_TYPE } from '../answer/content-type.ts'
import { errorFormatOf } from '../answer/error-format.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { tokensOf } from '../price/usage-count.ts'
import {
  answerFrom,
  badParameter,
  dialectOf,
  formatWith,
  JSON_UTF8_TYPE,
  jsonAnswer,
  parsedAnswer,
  readingDocument,
  upstreamBody,
} from './carry.ts'
import type { AnswerReading, ChannelRequest } from './channel-request.ts'
import { boundTextOf, countedInput, promptTextOf } from './chat-work.ts'
import { readBuffered, usageOptionsOf } from './openai.ts'
import type { OperationSpec, Work } from './operation.ts'
import { clientBody, encodedBody, mustRead, refusalOfFault } from './request-reader.ts'

const commonOr = formatWith('embeddings', 'openai')
const dialectFor = (channel: RelayChannel, sentModel: string) =>
  dialectOf('embeddings', 'openai', channel, sentModel)

/** Google's embedding methods follow the model's name in the path: one for a single text, one for a batch. */
const METHODS = ['embedContent', 'batchEmbedContents'] as const
type Method = (typeof METHODS)[number]

/** Only Google's paths have a placeholder for the method. The addresses of other vendors are cached. */
const methodOn = ({ provider }: RelayChannel, method: Method) =>
  provider.embeddings?.gemini === undefined ? undefined : { method }

export const embeddings = {
  operation: 'embeddings',
  format: 'openai',
  formatFor: commonOr,
  skims: true,
  read(parsed, bytes, _readContext, members): Work {
    const facts = mustRead(readEmbeddingRequest(parsed))
    const { encoding } = facts
    let whole: EmbeddingAsk | undefined
    /** A large body is parsed without its long texts, so it is parsed again in full here. */
    const fullRequest = () => {
      whole ??= embeddingAskOf(bytes.length > SKIM_BYTES ? JSON.parse(bytes.toString('utf8')) : parsed)
      if (whole === undefined) throw onlyTexts()
      return whole
    }
    return {
      promptText: () => promptTextOf(facts, parsed),
      boundText: () => boundTextOf(facts, bytes),
      model: facts.model,
      isStream: false,
      inputTokens: inputBound(facts),
      countedInput: Math.ceil(countedInput(facts)),
      outputTokens: () => 0,
      ...(facts.isTokens && {
        unfit: (channel, sentModel) => (dialectFor(channel, sentModel) ? onlyTexts() : undefined),
      }),
      placeholders: channel => methodOn(channel, 'batchEmbedContents'),
      requestFor(channel, sentModel) {
        const dialect = dialectFor(channel, sentModel)
        if (dialect) return encodeInDialect(dialect, fullRequest(), { channel, sentModel, encoding })
        const common = { list: 'data', least: facts.inputs, usageOptions: usageOptionsOf(channel) } as const
        return {
          ...clientBody({ bytes, members }, facts.model, sentModel, channel),
          readBuffered({ body }) {
            const reading = readBuffered(body, common)
            return reading instanceof Promise
              ? reading.then(each => withEncoding(each, body, encoding))
              : withEncoding(reading, body, encoding)
          },
          meter: () => createStreamMeter({ includeUsage: true }),
        }
      },
    }
  },
} satisfies OperationSpec

type DialectTarget = {
  readonly channel: RelayChannel
  readonly sentModel: string
  readonly encoding: Encoding
}

const encodeInDialect = (
  dialect: EmbeddingDialect,
  ask: EmbeddingAsk,
  { channel, sentModel, encoding }: DialectTarget,
): ChannelRequest => ({
  ...upstreamBody(dialect.encode(ask, sentModel), channel),
  readBuffered: ({ body }) =>
    readingDocument(body, document => {
      const answer = dialect.decode(document, ask)
      return {
        usage: embeddingUsage(answer),
        outputBytes: 0,
        answer: usage => writtenVectors(body, answer.vectors, { model: sentModel, encoding, usage }),
      }
    }),
  meter: () => createStreamMeter({ includeUsage: true }),
})

/** Re-encodes the vectors of the answer as the client requested. */
function withEncoding(reading: AnswerReading, received: Buffer, encoding: Encoding): AnswerReading {
  if (reading.fault !== undefined) return reading
  const answerOf = (body: Buffer) => ({ body, contentType: JSON_TYPE })
  const answer = () => {
    const encoded = inEncoding(received, encoding)
    return encoded instanceof Promise ? encoded.then(answerOf) : answerOf(encoded)
  }
  return { ...reading, answer }
}

/** The vectors of an answer in the encoding that the client requested. A large answer is converted in slices. */
function inEncoding(body: Buffer, encoding: Encoding): Buffer | Promise<Buffer> {
  if (body.length > SLICED_BYTES)
    return isEncodedOtherwise(body, encoding) ? changeLarge(body, encoding) : body
  const answer = parsedAnswer(body) as JsonObject
  const encoded = encodeEmbeddings(answer, encoding)
  return encoded === answer ? body : Buffer.from(JSON.stringify(encoded))
}

async function changeLarge(body: Buffer, encoding: Encoding): Promise<Buffer> {
  const answer = (await parseInSlices(body)) as JsonObject
  const encoded = await encodeEmbeddingsInSlices(answer, encoding)
  return encoded === answer ? body : writeInSlices(encoded)
}

function writtenVectors(
  source: Buffer,
  vectors: readonly Vector[],
  options: Parameters<typeof writeVectors>[1],
) {
  if (source.length <= SLICED_BYTES) return jsonAnswer(writeVectors(vectors, options))
  return writeVectorsInSlices(vectors, options)
    .then(writeInSlices)
    .then(body => ({ body, contentType: JSON_UTF8_TYPE }))
}

const onlyTexts = () =>
  badParameter('input', 'must be text: the provider of this model does not accept tokens')

/** The common format as a dialect. */
const COMMON: EmbeddingDialect = {
  encode: (ask, model) => ({ json: encodeCommonEmbedding(ask, model) }),
  decode: readCommonVectors,
}

const isNative = (provider: Provider, sentModel: string) =>
  formatsFor(provider, 'embeddings', sentModel).includes('gemini')

/** Whether the fault is a part other than text, which only Google's own models accept. */
const isMedia = ({ param }: RequestFault) => /parts\[\d+\]\.text$/.test(param ?? '')

/** The bounds of a body that the operation cannot read again. Embeddings have input only. */
const inputOnly = (body: Readonly<Record<string, unknown>>) => ({
  inputTokens: inputBound(sizeOf(body)),
  outputTokens: () => 0,
  tools: NO_TOOLS,
})

/** The URL names the model; every model in the body must equal it. */
function mustNameModel(body: Readonly<Record<string, unknown>>, model: string): void {
  const refuse = (path: string, message: string) => {
    throw badParameter(path, message)
  }
  checkModel({ refuse }, body, { model })
  const { requests } = body
  for (const [index, each] of (Array.isArray(requests) ? requests : []).entries())
    checkModel({ refuse }, each, { model }, `requests[${index}].`)
}

/** Embeddings in Google's format: Google gets the client's bytes, other vendors get a translation. */
const contentEmbeddings = (model: string, method: Method): OperationSpec => ({
  operation: 'embeddings',
  format: 'openai',
  formatFor: (provider, sentModel): FormatName | undefined =>
    isNative(provider, sentModel) ? 'gemini' : commonOr(provider, sentModel),
  errorFormat: errorFormatOf(gemini),
  names: 'either',
  read(parsed, bytes): Work {
    const decoded = decodeEmbedding(parsed, { model })
    if ('fault' in decoded && !isMedia(decoded.fault)) throw refusalOfFault(decoded.fault)
    mustNameModel(parsed, model)
    const understood = () => {
      if ('fault' in decoded) throw refusalOfFault(decoded.fault)
      return decoded
    }
    const size = sizeOf(parsed)
    return {
      model,
      isStream: false,
      inputTokens: inputBound(size),
      ...countedTexts(decoded, size),
      outputTokens: () => 0,
      ...('fault' in decoded && {
        unfit: (channel: RelayChannel, sentModel: string) =>
          isNative(channel.provider, sentModel) ? undefined : refusalOfFault(decoded.fault),
      }),
      placeholders: channel => methodOn(channel, method),
      requestFor(channel, sentModel) {
        if (isNative(channel.provider, sentModel)) {
          const body = sentModel === model ? bytes : Buffer.from(JSON.stringify(withModel(parsed, sentModel)))
          return {
            body: encodedBody({ bytes: body }, sentModel, sentModel, channel),
            boundsOf: inputOnly,
            readBuffered: answer => readingDocument(answer.body, readNativeVectors),
            meter: () => createStreamMeter({ includeUsage: true }),
          }
        }
        const { request, warnings, isBatch } = understood()
        const dialect = dialectFor(channel, sentModel) ?? COMMON
        const encoded = dialect.encode(request, sentModel)
        const losses = warnings.length > 0 ? [warningsHeader(warnings)] : []
        return {
          ...upstreamBody({ ...encoded, warnings: [...losses, ...(encoded.warnings ?? [])] }, channel),
          readBuffered: ({ body }) =>
            readingDocument(body, document => {
              const answer = dialect.decode(document, request)
              return {
                usage: embeddingUsage(answer),
                outputBytes: 0,
                answer: answerFrom(body, () => encodeVectors(answer.vectors, isBatch)),
              }
            }),
          meter: () => createStreamMeter({ includeUsage: true }),
        }
      },
    }
  },
})

function readNativeVectors(document: unknown): AnswerReading {
  const usage = embeddingUsage({ vectors: [], tokens: readEmbeddingTokens(document) })
  return hasVectors(document) ? { usage, outputBytes: 0 } : NO_VECTORS
}

/** The estimated input if the provider reports none: its texts, or the entire body if it has parts other than text. */
function countedTexts(decoded: ReturnType<typeof decodeEmbedding>, size: PromptSize) {
  if ('fault' in decoded) return { countedInput: Math.ceil(countedInput(size)) }
  const { inputs } = decoded.request
  const bytes = inputs.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  return { countedInput: tokensOf(bytes), promptText: () => promptText({ input: inputs }, 0) }
}

const NO_VECTORS = { usage: undefined, outputBytes: 0, fault: 'the response has no vectors' }

export const EMBEDDING_METHODS = Object.fromEntries(
  METHODS.map(method => [method, (model: string) => contentEmbeddings(model, method)]),
)
