import { anthropic } from '../../formats/anthropic/format.ts'
import { createFactsReader } from '../../formats/facts.ts'
import type { Address, Format } from '../../formats/format.ts'
import { createPassingMeter } from '../../formats/meter.ts'
import type { ChatFacts } from '../../formats/openai/chat-request.ts'
import type { RequestReading } from '../../formats/openai/request-fields.ts'
import { responses as responsesFormat } from '../../formats/responses/format.ts'
import type { Format as FormatName } from '../../providers/index.ts'
import type { Member } from '../../wire/json-edit.ts'
import { tokensOf } from '../count.ts'
import { type Voice, voiceOf } from '../voice.ts'
import { reading } from './carry.ts'
import { generation, usageOptionsOf } from './openai.ts'
import type { Desk, OperationSpec, Work } from './operation.ts'
import { chatFormat, decodeWhole, measured, translating } from './translate.ts'
import { dressed, mustRead } from './written.ts'

type Dialect = {
  readonly format: Format & { readonly name: FormatName }
  readonly facts: (parsed: unknown, address?: Address) => RequestReading<ChatFacts>
  readonly voice: Voice
}

/** Chats in a format of their own: for its vendors as they are, for all others through the hub. */
function chatIn({ format, facts: readFacts, voice }: Dialect) {
  const read = (parsed: Record<string, unknown>, bytes: Buffer, desk: Desk, members?: readonly Member[]) => {
    const facts = mustRead(readFacts(parsed))
    const { ambience } = desk
    const told = { format, bytes, members, parsed, choices: facts.n }
    return {
      ...generation(facts, parsed, bytes),
      ...translating(
        told,
        {
          dress: (channel, sent) => dressed(told, facts.model, sent, channel),
          readWhole: (body, channel) =>
            reading(() => {
              const whole = decodeWhole(format, body, { ambience, usage: usageOptionsOf(channel) })
              return 'fault' in whole ? whole : measured(whole.answer)
            }),
          meter: channel =>
            createPassingMeter(format.createStreamDecoder({ ambience, usage: usageOptionsOf(channel) })),
        },
        desk,
      ),
    }
  }
  return {
    operation: 'chat',
    format: format.name,
    formatFor: chatFormat(format.name),
    voice,
    skims: true,
    read,
  } as const satisfies OperationSpec
}

const MESSAGES: Dialect = {
  format: anthropic,
  facts: createFactsReader({ turns: 'messages', limit: 'max_tokens' }),
  voice: voiceOf(anthropic, {
    headers: requestId => ({ 'request-id': requestId }),
    keepAlive: 'event: ping\ndata: {"type":"ping"}\n\n',
    isIdTold: true,
  }),
}

const NOT_STORED = 'cannot be taken: nothing is stored here'

const RESPONSES: Dialect = {
  format: responsesFormat,
  facts: createFactsReader({
    turns: 'input',
    isTextTaken: true,
    limit: 'max_output_tokens',
    refused: {
      previous_response_id: `${NOT_STORED}, so send the whole conversation as input`,
      conversation: `${NOT_STORED}, so send the whole conversation as input`,
      prompt: `${NOT_STORED}, so send the text itself`,
      background: NOT_STORED,
    },
  }),
  voice: voiceOf(responsesFormat, { keepAlive: ': keep-alive\n\n' }),
}

export const messages = chatIn(MESSAGES)
export const responses = chatIn(RESPONSES)

/** How many tokens a request has, as nearly as we can tell without asking its vendor. */
export const countMessages = {
  operation: 'chat',
  format: MESSAGES.format.name,
  formatFor: messages.formatFor,
  voice: MESSAGES.voice,
  skims: true,
  read(parsed, bytes, desk, members): Work {
    const work = messages.read(parsed, bytes, desk, members)
    return {
      ...work,
      async tell(counter) {
        const { text, bytes: all, extra } = work.promptText()
        const counted = await counter.count(text)
        const share = Math.max(1, all / Math.max(1, Buffer.byteLength(text)))
        return { input_tokens: extra + (counted === undefined ? tokensOf(all) : Math.ceil(counted * share)) }
      },
    }
  },
} satisfies OperationSpec
