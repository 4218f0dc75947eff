import { anthropic } from './formats/anthropic.ts'
import { bedrock } from './formats/bedrock.ts'
import { cohere } from './formats/cohere.ts'
import { dashscope } from './formats/dashscope.ts'
import { deepgram } from './formats/deepgram.ts'
import { elevenlabs } from './formats/elevenlabs.ts'
import type { Protocol, ProtocolRoute } from './formats/format.ts'
import { gemini } from './formats/gemini.ts'
import { geminiMedia } from './formats/gemini-media.ts'
import { minimax } from './formats/minimax.ts'
import { mistralChat } from './formats/mistral-chat.ts'
import { mistralMedia } from './formats/mistral-media.ts'
import { ollama } from './formats/ollama.ts'
import { openai } from './formats/openai.ts'
import { siliconflow, volcengine } from './formats/picture-hosts.ts'
import { tei, voyage } from './formats/rankers.ts'
import { googleTokens, vertexClaude, vertexGemini } from './formats/vertex.ts'
import { xaiMedia } from './formats/xai-media.ts'

/** All protocols of the simulator. The first matching route answers. */
export const formats: readonly [Protocol, ...Protocol[]] = [
  openai,
  anthropic,
  elevenlabs,
  deepgram,
  gemini,
  geminiMedia,
  voyage,
  tei,
  minimax,
  dashscope,
  mistralMedia,
  xaiMedia,
  siliconflow,
  volcengine,
  bedrock,
  cohere,
  mistralChat,
  ollama,
  googleTokens,
  vertexGemini,
  vertexClaude,
]

/** Unknown paths get the error format of the first protocol. */
export const fallback: Protocol = formats[0]

export type Match = {
  readonly format: Protocol
  /** Absent if the path exists, but not with this method. */
  readonly route?: ProtocolRoute
  readonly params: readonly string[]
}

export function findRoute(method: string, path: string): Match | undefined {
  let other: Match | undefined
  for (const format of formats) {
    for (const route of format.routes) {
      const match = route.path.exec(path)
      if (match === null) continue
      if (route.method === method) return { format, route, params: match.slice(1) }
      other ??= { format, params: [] }
    }
  }
  return other
}
