import { eventsOf } from '../../chat/hub/answer.ts'
import type { DecodeOptions, IdsAndClock, Outbound } from '../../chat/hub/format.ts'
import type { ChatAnswer, ChatRequest } from '../../chat/hub/hub.ts'
import { createEventMeter } from '../../chat/hub/meter.ts'
import { type FittedNames, withOwnNames } from '../../chat/hub/tools/fitted-names.ts'
import { inboundOf, outboundOf } from '../../chat/index.ts'
import { withToolCalls } from '../../domain/usage.ts'
import type { UsageOptions } from '../../metering/openai-usage.ts'
import { answerFrom, readingDocument } from './carry.ts'
import type { AnswerReading } from './channel-request.ts'

/** How non-stream answers of a channel are translated. It is plain data, so that it can be posted to a worker thread. */
export type AnswerTranslation = {
  readonly upstreamFormat: string
  readonly clientFormat: string
  readonly usage?: UsageOptions
  /** Tool names that were changed for the channel. */
  readonly names: FittedNames | undefined
  /** The request as answers repeat its fields. */
  readonly requestEcho: ChatRequest
}

/** Decodes a non-stream answer from the channel's format, and encodes it in the client's. */
export function translateAnswer(
  body: Buffer,
  { upstreamFormat, clientFormat, usage: usageOptions, names, requestEcho }: AnswerTranslation,
  idsAndClock: IdsAndClock,
): AnswerReading | Promise<AnswerReading> {
  const upstream = outboundOf(upstreamFormat)
  const client = inboundOf(clientFormat)
  if (!upstream || !client) throw new Error(`no such format: ${upstreamFormat} or ${clientFormat}`)
  const decoding = { idsAndClock, ...(usageOptions && { usage: usageOptions }) }
  return readingDocument(body, document => {
    const decoded = decodeBuffered(upstream, document, decoding)
    if ('fault' in decoded) return decoded
    const answerToClient = withOwnNames(decoded.answer, names)
    const encodedAnswer = (answer: ChatAnswer) =>
      answerFrom(body, () => client.encodeAnswer(answer, { idsAndClock, request: requestEcho }))
    // If the provider reports no usage, the client gets the counted one.
    const isReported = answerToClient.usage !== undefined
    return {
      ...measured(decoded.answer),
      answer: isReported
        ? encodedAnswer(answerToClient)
        : usage => writtenNow(encodedAnswer({ ...answerToClient, usage })),
    }
  })
}

const writtenNow = (answer: ReturnType<typeof answerFrom>) =>
  typeof answer === 'function' ? answer() : answer

/** The decoded answer, or the reason why it cannot be decoded. */
export function decodeBuffered(
  format: Outbound,
  document: unknown,
  options: DecodeOptions,
): { readonly answer: ChatAnswer } | (AnswerReading & { readonly fault: string }) {
  const answer = format.decodeAnswer(document, options)
  return 'error' in answer ? { usage: undefined, outputBytes: 0, fault: answer.error.message } : { answer }
}

/** The usage that an answer reports; without one, its output for a token count. */
export function measured(answer: ChatAnswer): AnswerReading {
  const { usage, toolCalls } = answer
  if (usage !== undefined) return { usage: withToolCalls(usage, toolCalls), outputBytes: 0 }
  const meter = createEventMeter()
  for (const event of eventsOf(answer)) meter.read(event)
  const { textBytes, reasoningBytes } = meter.reading
  const outputBytes = textBytes + reasoningBytes
  return { usage: undefined, outputBytes, sample: meter.sample, ...(toolCalls && { toolCalls }) }
}
