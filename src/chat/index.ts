import { bedrock } from './anthropic/bedrock/format.ts'
import { anthropic } from './anthropic/messages/format.ts'
import { cohere } from './cohere/format.ts'
import { gemini } from './gemini/format.ts'
import type { Format, Inbound, Outbound } from './hub/format.ts'
import { ollama } from './ollama/format.ts'
import { openaiChat } from './openai/chat-completions/format.ts'
import { responses } from './openai/responses/format.ts'

/** The formats that both clients and upstreams use. A format of upstreams only belongs in `OUTBOUND` alone. */
export const FORMATS: readonly Format[] = [openaiChat, anthropic, responses, gemini]

export const OUTBOUND: readonly Outbound[] = [...FORMATS, bedrock, cohere, ollama]

const outboundByName: ReadonlyMap<string, Outbound> = new Map(OUTBOUND.map(format => [format.name, format]))

const inboundByName: ReadonlyMap<string, Inbound> = new Map(FORMATS.map(format => [format.name, format]))

/** The format that clients use under this name. */
export const inboundOf = (name: string): Inbound | undefined => inboundByName.get(name)

/** The encoder and decoder for upstreams of a format; undefined: the gateway does not support it. */
export const outboundOf = (name: string): Outbound | undefined => outboundByName.get(name)
