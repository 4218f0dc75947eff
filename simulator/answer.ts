import { sampleOf } from './schema.ts'
import { countTokens, splitTokens } from './tokens.ts'

export type OfferedTool = {
  readonly name: string
  readonly parameters: unknown
  /** A custom tool takes free text instead of JSON. */
  readonly isCustom: boolean
}

/** A chat request, independent of its format. */
export type SimulatedChat = {
  readonly model: string
  readonly promptTokens: number
  /** The last message: of the user, or the result of a tool. */
  readonly lastMessage: { readonly by: 'user' | 'tool'; readonly text: string }
  readonly tools: readonly OfferedTool[]
  readonly toolMode: 'auto' | 'none' | 'required'
  readonly allowsParallelCalls: boolean
  /** The answer must be JSON, with this schema if there is one. */
  readonly json: { readonly schema: unknown } | undefined
  /** The answer has exactly so many words. */
  readonly words: number | undefined
  readonly maxTokens: number
}

export type AnsweredCall = { readonly tool: OfferedTool; readonly tokens: readonly string[] }

/** One choice of the answer, already cut to the token limit. */
export type AnswerChoice = {
  readonly text: readonly string[]
  readonly calls: readonly AnsweredCall[]
  readonly tokenCount: number
  readonly isCut: boolean
}

const CALL_LIMIT = 3
const EXCERPT_LENGTH = 240
const WORDS =
  'the quick brown fox jumps over a lazy dog while seven green boats drift down one quiet river'.split(' ')

/** The answer to a request: always the same for the same request, so that tests can compute it. */
export function answer(ask: SimulatedChat, index: number): AnswerChoice {
  const tools = toolsToCall(ask)
  if (tools.length > 0) return cutCalls(tools, ask)
  const tokens = ask.words === undefined ? splitTokens(compose(ask, index)) : words(ask.words)
  const text = tokens.slice(0, ask.maxTokens)
  return { text, calls: [], tokenCount: text.length, isCut: text.length < tokens.length }
}

/** The tokens of a call before its arguments. */
export function countOpening(call: AnsweredCall): number {
  return countTokens(call.tool.name)
}

/**
 * A tool is called if the request requires it, or if the user's last message has the word "tool" or "tools" or the name of a
 * tool: the named tools, else the first few. After a tool's result comes text, so that a client's loop ends.
 */
function toolsToCall(ask: SimulatedChat): readonly OfferedTool[] {
  if (ask.toolMode === 'none' || ask.tools.length === 0) return []
  const { by, text } = ask.lastMessage
  const namedTools = ask.tools.filter(tool => text.includes(tool.name))
  const isToolRequested = by === 'user' && (namedTools.length > 0 || /\btools?\b/i.test(text))
  if (ask.toolMode === 'auto' && !isToolRequested) return []
  const chosen = namedTools.length > 0 ? namedTools : ask.tools
  return chosen.slice(0, ask.allowsParallelCalls ? CALL_LIMIT : 1)
}

function cutCalls(tools: readonly OfferedTool[], ask: SimulatedChat): AnswerChoice {
  const calls: AnsweredCall[] = []
  let budget = ask.maxTokens
  let isCut = false
  for (const tool of tools) {
    const whole = { tool, tokens: splitTokens(argumentsFor(tool, ask)) }
    const opening = countOpening(whole)
    if (budget < opening) {
      isCut = true
      break
    }
    const tokens = whole.tokens.slice(0, budget - opening)
    isCut = tokens.length < whole.tokens.length
    calls.push({ tool, tokens })
    budget -= opening + tokens.length
    if (isCut) break
  }
  const tokenCount = calls.reduce((sum, call) => sum + countOpening(call) + call.tokens.length, 0)
  return { text: [], calls, tokenCount, isCut }
}

function argumentsFor(tool: OfferedTool, ask: SimulatedChat): string {
  if (tool.isCustom) return excerpt(ask.lastMessage.text)
  return JSON.stringify(sampleOf(tool.parameters ?? { type: 'object' }, tool.name))
}

function compose(ask: SimulatedChat, index: number): string {
  if (ask.json === undefined) return sentence(ask, index)
  if (ask.json.schema === undefined) return JSON.stringify({ answer: sentence(ask, index) })
  return JSON.stringify(sampleOf(ask.json.schema, 'answer'))
}

function sentence(ask: SimulatedChat, index: number): string {
  const { by, text } = ask.lastMessage
  const opening = index === 0 ? 'Hello!' : `Hello again, this is choice ${index + 1}.`
  const echo = text.trim() === '' ? 'You wrote nothing' : `You wrote: "${excerpt(text)}"`
  const report = by === 'tool' ? `The tool answered: "${excerpt(text)}"` : echo
  return (
    `${opening} I am ${ask.model}, a simulated model: I cannot think, but I can listen. ${report}. ` +
    `By my count your prompt has ${ask.promptTokens} tokens. ` +
    'Ask me the same again and you will get the same answer, word for word.'
  )
}

function excerpt(text: string): string {
  const clean = text.trim()
  if (clean.length <= EXCERPT_LENGTH) return clean
  const tokens = splitTokens(clean.slice(0, EXCERPT_LENGTH))
  // The last token may have been cut in the middle; it is kept only if there is no other.
  const wholeTokens = tokens.length > 1 ? tokens.slice(0, -1) : tokens
  return `${wholeTokens.join('')} …`
}

function words(count: number): readonly string[] {
  return Array.from({ length: count }, (_, at) => {
    const word = WORDS[at % WORDS.length] ?? ''
    return at === 0 ? word : ` ${word}`
  })
}
