import { randomBytes } from 'node:crypto'
import { member } from '../../domain/json-value.ts'
import { readCommonModeration, readModerationRequest, writeModeration } from '../../media/moderation.ts'
import { readOpenAiUsage } from '../../metering/openai-usage.ts'
import { inputBound, sizeOf } from '../../metering/prompt-size.ts'
import { answerFrom, dialectOf, formatWith, neverStreams, readingDocument, upstreamBody } from './carry.ts'
import type { OperationSpec, ReadContext, Work } from './operation.ts'
import { clientBody, mustRead } from './request-reader.ts'

const BYTES_PER_TOKEN = 4

/** The default models, in order of preference (docs/reference/relay-api.md: Moderation). */
const USUAL_MODELS = ['omni-moderation-latest', 'text-moderation-latest', 'text-moderation-stable']

const newId = () => `modr-${randomBytes(12).toString('hex')}`

const defaultModel = ({ settings, isServed }: ReadContext) =>
  settings().default_moderation_model || USUAL_MODELS.find(isServed)

export const moderation = {
  operation: 'moderation',
  format: 'openai',
  formatFor: formatWith('moderation', 'openai'),
  read(parsed, bytes, readContext): Work {
    const ask = mustRead(readModerationRequest(parsed, () => defaultModel(readContext)))
    const size = sizeOf(ask.body, ['model'])
    // If the client names no model, the body gets the routed one.
    const bodyModel = typeof parsed.model === 'string' ? parsed.model : ''
    return {
      model: ask.model,
      isStream: false,
      inputTokens: inputBound(size),
      countedInput: Math.ceil(inputBound(size) / BYTES_PER_TOKEN),
      outputTokens: () => 0,
      requestFor(channel, sentModel) {
        const dialect = dialectOf('moderation', 'openai', channel, sentModel)
        const encoded = dialect
          ? upstreamBody(dialect.encode(ask, sentModel), channel)
          : clientBody({ bytes }, bodyModel, sentModel, channel)
        return {
          ...encoded,
          readBuffered: ({ body }) =>
            readingDocument(body, answer => {
              const judged = dialect ? dialect.decode(answer, ask) : readCommonModeration(answer)
              return {
                usage: readOpenAiUsage(member(answer, 'usage')),
                outputBytes: 0,
                answer: answerFrom(body, () => writeModeration(judged, ask, newId)),
              }
            }),
          meter: neverStreams,
        }
      },
    }
  },
} satisfies OperationSpec
