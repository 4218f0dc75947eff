/** The providers of LiteLLM by our types of channels. */

const OPENAI = 1
const AZURE = 3
const CUSTOM = 8
const ANTHROPIC = 14
const BEDROCK = 33
const VERTEX = 41

export const TYPES = { OPENAI, AZURE, CUSTOM, ANTHROPIC, BEDROCK, VERTEX } as const

const PROVIDERS: Readonly<Record<string, number>> = {
  openai: OPENAI,
  'text-completion-openai': OPENAI,
  custom_openai: CUSTOM,
  openai_like: CUSTOM,
  azure: AZURE,
  azure_text: AZURE,
  anthropic: ANTHROPIC,
  bedrock: BEDROCK,
  bedrock_converse: BEDROCK,
  vertex_ai: VERTEX,
  vertex_ai_beta: VERTEX,
  gemini: 24,
  mistral: 42,
  codestral: 42,
  cohere: 34,
  cohere_chat: 34,
  deepseek: 43,
  xai: 48,
  openrouter: 20,
  perplexity: 27,
  ollama: 4,
  ollama_chat: 4,
  dashscope: 17,
  moonshot: 25,
  minimax: 35,
  volcengine: 45,
  jina_ai: 38,
  cloudflare: 39,
  replicate: 56,
  groq: 1001,
  together_ai: 1002,
  fireworks_ai: 1003,
  cerebras: 1004,
  sambanova: 1005,
  deepinfra: 1006,
  novita: 1007,
  nebius: 1008,
  hyperbolic: 1009,
  nvidia_nim: 1010,
  huggingface: 1011,
  zai: 1012,
  elevenlabs: 1013,
  deepgram: 1014,
  voyage: 1015,
  hosted_vllm: 1019,
  vllm: 1019,
  lm_studio: 1022,
}

/** Names without a provider, as LiteLLM guesses it. */
const GUESSES: readonly (readonly [RegExp, string])[] = [
  [/^(gpt-|o\d|chatgpt-|text-embedding-|dall-e|whisper|tts-|omni-moderation|ft:)/, 'openai'],
  [/^claude-/, 'anthropic'],
  [/^gemini-/, 'vertex_ai'],
  [/^command-/, 'cohere'],
]

export type ProviderModel = {
  readonly provider: string
  readonly model: string
  readonly type: number | undefined
}

/** Splits `provider/name`. The provider may also be a parameter of its own. */
export function readProviderModel(text: string, provider: string): ProviderModel {
  const slash = text.indexOf('/')
  const prefix = slash < 0 ? '' : text.slice(0, slash)
  if (provider !== '') {
    const model = prefix === provider ? text.slice(slash + 1) : text
    return { provider, model, type: typeOf(provider) }
  }
  if (typeOf(prefix) !== undefined)
    return { provider: prefix, model: text.slice(slash + 1), type: typeOf(prefix) }
  const guess = GUESSES.find(([pattern]) => pattern.test(text))?.[1] ?? ''
  return { provider: guess || prefix, model: text, type: typeOf(guess) }
}

const typeOf = (provider: string) => (Object.hasOwn(PROVIDERS, provider) ? PROVIDERS[provider] : undefined)
