/** Whose token prices are taken over from the price package. */
export type TokenSource = {
  /** The provider's id in the package. */
  readonly id: string
  /** The label `/v1/models` gives its models. */
  readonly owner: string
  /** Further exact names the vendor serves, each with the package's id of the same model. */
  readonly also?: Readonly<Record<string, string>>
}

/**
 * The first to list a name decides its price: makers before those who host or resell other people's models.
 * The package covers some names by prefix only; the ones in daily use are spelled out in `also`.
 */
export const TOKEN_SOURCES: readonly TokenSource[] = [
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
