/**
 * The table of model generations: facts that no API reports. A new generation is one row here, above the rows of the
 * generations before it, because the first row that matches a name wins. `matches` is explained in `name-pattern.ts`.
 */

// --- OpenAI -------------------------------------------------------------------------------------------------------

/** An absent fact is unknown: the gateway leaves that part of a request unchanged. */
export type OpenAiGeneration = {
  readonly matches: readonly string[]
  /** The reasoning efforts that the model accepts, lowest first; empty: it does not reason. */
  readonly efforts?: readonly string[]
  /** When the model accepts sampling parameters such as `temperature` and `top_p`. */
  readonly sampling?: 'always' | 'withoutReasoning' | 'never'
  /** The maximum output tokens of a request. */
  readonly maxOutputTokens?: number
}

const WITHOUT_REASONING = { efforts: [], sampling: 'always' } as const
const UNKNOWN = {} as const

export const OPENAI = [
  {
    matches: ['gpt-5.[2-5]', 'gpt-5.[2-5]-20*', 'gpt-5.[2-5]-mini*', 'gpt-5.[2-5]-nano*'],
    efforts: ['none', 'low', 'medium', 'high', 'xhigh'],
    sampling: 'withoutReasoning',
    maxOutputTokens: 128_000,
  },
  {
    matches: ['gpt-5.1', 'gpt-5.1-20*'],
    efforts: ['none', 'low', 'medium', 'high'],
    sampling: 'withoutReasoning',
    maxOutputTokens: 128_000,
  },
  {
    matches: ['gpt-5', 'gpt-5-20*', 'gpt-5-mini*', 'gpt-5-nano*'],
    efforts: ['minimal', 'low', 'medium', 'high'],
    sampling: 'never',
    maxOutputTokens: 128_000,
  },
  { matches: ['gpt-5-pro*'], efforts: ['high'], sampling: 'never', maxOutputTokens: 272_000 },
  { matches: ['gpt-5-chat*', 'gpt-5.[0-9]-chat*'], ...WITHOUT_REASONING, maxOutputTokens: 16_384 },
  { matches: ['gpt-5*'], maxOutputTokens: 128_000 },
  {
    matches: ['o[134]', 'o[134]-*'],
    efforts: ['low', 'medium', 'high'],
    sampling: 'never',
    maxOutputTokens: 100_000,
  },
  { matches: ['gpt-4.1*'], ...WITHOUT_REASONING, maxOutputTokens: 32_768 },
  {
    matches: ['gpt-4o-2024-05-13*', 'gpt-4-turbo*', 'gpt-4-vision*', 'gpt-4-1106*', 'gpt-4-0125*'],
    ...WITHOUT_REASONING,
    maxOutputTokens: 4_096,
  },
  { matches: ['gpt-4o*', 'chatgpt-4o*'], ...WITHOUT_REASONING, maxOutputTokens: 16_384 },
  { matches: ['gpt-4', 'gpt-4-0613', 'gpt-4-0314'], ...WITHOUT_REASONING, maxOutputTokens: 8_192 },
  {
    matches: ['gpt-3.5-turbo', 'gpt-3.5-turbo-1106', 'gpt-3.5-turbo-0125'],
    ...WITHOUT_REASONING,
    maxOutputTokens: 4_096,
  },
  { matches: ['gpt-4*', 'gpt-3*', 'chatgpt-*'], ...WITHOUT_REASONING },
  // Their facts are unknown, so the vendor validates the request.
  { matches: ['gpt-6*', 'gpt-oss*', 'gpt-chat-latest', 'codex*', 'computer-use*', 'ft:*'], ...UNKNOWN },
  { matches: ['gpt-audio*', 'gpt-realtime*'], ...UNKNOWN },
  { matches: ['ada', 'babbage*', 'curie', 'davinci*', 'text-*'], ...UNKNOWN },
] as const satisfies readonly OpenAiGeneration[]

// --- Anthropic ----------------------------------------------------------------------------------------------------

export type ClaudeGeneration = {
  readonly matches: readonly string[]
  /** The lowest version of the row, as in `claude-opus-4-6` or `claude-3-5-sonnet-20241022`. */
  readonly from?: string
  /**
   * `budget`: the client sets a number of tokens. `adaptive`: the model decides, guided by an effort, and accepts a
   * budget too. `adaptiveOnly`: it rejects a budget.
   */
  readonly thinking: 'budget' | 'adaptive' | 'adaptiveOnly'
  /** Whether the model accepts `temperature` and `top_p` together, one of the two, or no sampling parameters. */
  readonly sampling: 'both' | 'temperatureOrTopP' | 'never'
  /** Whether the vendor enforces a schema for answers and tool arguments. */
  readonly takesSchemas: boolean
  /** The required `max_tokens` if neither the client nor the price sets a limit. */
  readonly defaultOutputTokens: number
  /** The maximum output tokens of a request; absent: unknown. */
  readonly maxOutputTokens?: number
}

const upTo = (tokens: number) => ({ defaultOutputTokens: tokens, maxOutputTokens: tokens })
const ADAPTIVE_ONLY = { thinking: 'adaptiveOnly', sampling: 'never', takesSchemas: true } as const

export const CLAUDE = [
  { matches: ['*claude*'], from: '5', ...ADAPTIVE_ONLY, defaultOutputTokens: 64_000 },
  { matches: ['*claude*opus*'], from: '4.7', ...ADAPTIVE_ONLY, defaultOutputTokens: 64_000 },
  {
    matches: ['*claude*'],
    from: '4.6',
    thinking: 'adaptive',
    sampling: 'temperatureOrTopP',
    takesSchemas: true,
    defaultOutputTokens: 64_000,
  },
  {
    matches: ['*claude*'],
    from: '4.5',
    thinking: 'budget',
    sampling: 'temperatureOrTopP',
    takesSchemas: true,
    ...upTo(64_000),
  },
  {
    matches: ['*opus-4*'],
    from: '4.1',
    thinking: 'budget',
    sampling: 'temperatureOrTopP',
    takesSchemas: false,
    ...upTo(32_000),
  },
  {
    matches: ['*claude*'],
    from: '4.1',
    thinking: 'budget',
    sampling: 'temperatureOrTopP',
    takesSchemas: false,
    ...upTo(64_000),
  },
  {
    matches: ['*opus-4*'],
    from: '4',
    thinking: 'budget',
    sampling: 'both',
    takesSchemas: false,
    ...upTo(32_000),
  },
  {
    matches: ['*claude*'],
    from: '3.7',
    thinking: 'budget',
    sampling: 'both',
    takesSchemas: false,
    ...upTo(64_000),
  },
  {
    matches: ['*claude*'],
    from: '3.5',
    thinking: 'budget',
    sampling: 'both',
    takesSchemas: false,
    ...upTo(8_192),
  },
  {
    matches: ['*claude*'],
    from: '0',
    thinking: 'budget',
    sampling: 'both',
    takesSchemas: false,
    ...upTo(4_096),
  },
] as const satisfies readonly ClaudeGeneration[]

/** Names without a version, and models of other makers on hosts with the first version of this format. */
export const OTHER_IN_MESSAGES = {
  matches: ['*'],
  thinking: 'budget',
  sampling: 'both',
  takesSchemas: false,
  defaultOutputTokens: 8_192,
} as const satisfies ClaudeGeneration

// --- Google -------------------------------------------------------------------------------------------------------

export type GeminiGeneration = {
  readonly matches: readonly string[]
  /** The lowest version of the row, as in `gemini-2.5-flash`. */
  readonly from?: string
  /** How a client controls thinking: not at all, by a number of tokens, or also by a level. */
  readonly thinking: 'none' | 'budget' | 'level'
  /** The range of the thinking budget; a model with a minimum above 0 always thinks. */
  readonly budget: { readonly min: number; readonly max: number }
  /** The lowest thinking level. */
  readonly leastLevel: 'MINIMAL' | 'LOW'
  /** The maximum output tokens of a request; absent: unknown. */
  readonly maxOutputTokens?: number
  /** Rejects a turn whose first function call has no signature. */
  readonly needsSignedCalls: boolean
  /** Accepts media inside the result of a function. */
  readonly takesMediaInResults: boolean
  /** Accepts a resolution per image. */
  readonly takesMediaResolution: boolean
  /** Bills each search query; earlier generations bill once per grounded prompt. */
  readonly billsEachSearch: boolean
}

const PRO = { budget: { min: 128, max: 32_768 }, leastLevel: 'LOW' } as const
const FLASH = { budget: { min: 0, max: 24_576 }, leastLevel: 'MINIMAL' } as const
const SINCE_3 = {
  thinking: 'level',
  needsSignedCalls: true,
  takesMediaInResults: true,
  takesMediaResolution: true,
  billsEachSearch: true,
} as const
const BEFORE_3 = {
  thinking: 'budget',
  needsSignedCalls: false,
  takesMediaInResults: false,
  takesMediaResolution: false,
  billsEachSearch: false,
} as const

export const GEMINI = [
  { matches: ['*gemini*pro*'], from: '3', ...SINCE_3, ...PRO, maxOutputTokens: 65_536 },
  { matches: ['*gemini*'], from: '3', ...SINCE_3, ...FLASH, maxOutputTokens: 65_536 },
  { matches: ['*gemini*pro*'], from: '2.5', ...BEFORE_3, ...PRO, maxOutputTokens: 65_536 },
  { matches: ['*gemini*'], from: '2.5', ...BEFORE_3, ...FLASH, maxOutputTokens: 65_536 },
  { matches: ['*gemini*'], from: '0', ...BEFORE_3, ...FLASH, thinking: 'none', maxOutputTokens: 8_192 },
  // A name without a version, such as `gemini-flash-latest`, belongs to the newest generation.
  { matches: ['*gemini*pro*'], ...SINCE_3, ...PRO },
  { matches: ['*gemini*'], ...SINCE_3, ...FLASH },
  { matches: ['*pro*'], ...BEFORE_3, ...PRO },
] as const satisfies readonly GeminiGeneration[]

export const OTHER_IN_GEMINI = { matches: ['*'], ...BEFORE_3, ...FLASH } as const satisfies GeminiGeneration

// --- Any vendor ---------------------------------------------------------------------------------------------------

/** Models without hidden reasoning: they bill only the output that they deliver. Models not listed may have some. */
export const WITHOUT_HIDDEN_REASONING = [
  'gpt-3.5-turbo*',
  'gpt-4',
  'gpt-4-*',
  'gpt-4o',
  'gpt-4o-20*',
  'gpt-4o-mini',
  'gpt-4o-mini-20*',
  'gpt-4.1*',
  'claude-3-haiku*',
  'claude-3-opus*',
  'claude-3-sonnet*',
  'claude-3-5-*',
  'gemini-1.5-*',
  'llama-3*',
  'meta-llama-3*',
  'command-r*',
] as const satisfies readonly string[]

/** Models with a thinking level in Ollama; for all others it can only switch thinking on or off. */
export const OLLAMA_THINKING_LEVELS = ['*gpt-oss*'] as const satisfies readonly string[]
