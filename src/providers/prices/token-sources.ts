/** The vendors whose token prices come from the price package. */
export type TokenPriceSource = {
  /** The provider's id in the package. */
  readonly id: string
  /** The label of its models in `/v1/models`. */
  readonly owner: string
  /** Further exact names the vendor serves, each with the package's id of the same model. */
  readonly also?: Readonly<Record<string, string>>
}

/**
 * The first vendor that lists a name decides its price: makers before hosts and resellers. The package lists some names by
 * prefix only; the common ones are in `also`.
 */
export const TOKEN_SOURCES: readonly TokenPriceSource[] = [
  { id: 'openai', owner: 'openai' },
  {
    id: 'anthropic',
    owner: 'anthropic',
    also: {
      'claude-3-opus': 'claude-3-opus-latest',
      'claude-3-5-haiku': 'claude-3-5-haiku-latest',
      'claude-3-5-sonnet-latest': 'claude-3-5-sonnet',
      'claude-3-7-sonnet': 'claude-3-7-sonnet-latest',
    },
  },
  {
    id: 'google',
    owner: 'google',
    also: {
      'gemini-1.5-flash-002': 'gemini-1.5-flash',
      'gemini-1.5-pro-002': 'gemini-1.5-pro',
      'gemini-2.0-flash-001': 'gemini-2.0-flash',
      'gemini-2.0-flash-lite-001': 'gemini-2.0-flash-lite',
    },
  },
  {
    id: 'mistral',
    owner: 'mistral',
    also: {
      'magistral-medium-latest': 'magistral-medium',
      'magistral-small-latest': 'magistral-small',
      'mistral-small': 'mistral-small-latest',
    },
  },
  { id: 'deepseek', owner: 'deepseek' },
  { id: 'x-ai', owner: 'xai' },
  { id: 'cohere', owner: 'cohere' },
  { id: 'moonshotai', owner: 'moonshot' },
  { id: 'minimax', owner: 'minimax' },
  { id: 'zai', owner: 'zhipu' },
  { id: 'zhipuai', owner: 'zhipu' },
  { id: 'perplexity', owner: 'perplexity' },
  { id: 'voyageai', owner: 'voyage' },
  { id: 'aws', owner: 'aws' },
  { id: 'azure', owner: 'azure' },
  { id: 'groq', owner: 'groq' },
  { id: 'cerebras', owner: 'cerebras' },
  { id: 'cloudflare', owner: 'cloudflare' },
  { id: 'fireworks', owner: 'fireworks' },
  { id: 'together', owner: 'together' },
  { id: 'openrouter', owner: 'openrouter' },
  { id: 'novita', owner: 'novita' },
  { id: 'ovhcloud', owner: 'ovhcloud' },
]
