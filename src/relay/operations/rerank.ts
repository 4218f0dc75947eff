import { randomUUID } from 'node:crypto'
import { EMPTY, type Usage } from '../../domain/usage.ts'
import {
  countedSearches,
  plainDocuments,
  rankingUsage,
  readCommonRanking,
  readRerankRequest,
  searchesBound,
  writeRanking,
} from '../../media/rerank.ts'
import { answerFrom, dialectOf, formatWith, neverStreams, readingDocument, upstreamBody } from './carry.ts'
import type { OperationSpec, Work } from './operation.ts'
import { clientBody, mustRead } from './request-reader.ts'

const BYTES_PER_TOKEN = 4
/** Tokens that a tokenizer may add around the query and the document. */
const MARKERS = 8

const newId = () => `rerank-${randomUUID()}`

export const rerank = {
  operation: 'rerank',
  format: 'cohere',
  formatFor: formatWith('rerank', 'cohere'),
  read(parsed, bytes): Work {
    const ask = mustRead(readRerankRequest(parsed))
    const query = Buffer.byteLength(ask.query)
    // The model processes the query again with every document.
    const textBytes = ask.texts.reduce((sum, each) => sum + query + MARKERS + Buffer.byteLength(each), 0)
    const countedInput = Math.ceil(textBytes / BYTES_PER_TOKEN)
    const counted: Usage = { ...EMPTY, input: countedInput, searches: countedSearches(ask), calls: 1 }
    return {
      model: ask.model,
      isStream: false,
      inputTokens: textBytes,
      countedInput,
      outputTokens: () => 0,
      units: { searches: searchesBound(ask), calls: 1 },
      counted: () => counted,
      requestFor(channel, sentModel) {
        const dialect = dialectOf('rerank', 'cohere', channel, sentModel)
        const documents = dialect ? undefined : plainDocuments(ask)
        const encoded = dialect
          ? upstreamBody(dialect.encode(ask, sentModel), channel)
          : clientBody({ bytes }, ask.model, sentModel, channel, documents && { documents })
        return {
          ...encoded,
          readBuffered: ({ body }) =>
            readingDocument(body, answer => {
              const ranking = dialect ? dialect.decode(answer, ask) : readCommonRanking(answer)
              return {
                usage: rankingUsage(ranking, counted),
                outputBytes: 0,
                answer: answerFrom(body, () => writeRanking(ranking, ask, newId)),
              }
            }),
          meter: neverStreams,
        }
      },
    }
  },
} satisfies OperationSpec
