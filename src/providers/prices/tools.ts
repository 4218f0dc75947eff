import { type Price, type PriceFields, readPrice, type ToolFields } from '../../domain/price.ts'
import { isPerToken } from '../../domain/rate.ts'

/**
 * Prices of tools that vendors run themselves, in USD per call, in addition to the tokens of the model. List prices of
 * November 2026.
 */
type ToolPrices = {
  /** The label of the models' maker in the table. */
  readonly owner: string
  /** The models that have the tools. The first matching entry applies. */
  readonly models: RegExp
  readonly tools: ToolFields
  /** The prices of other kinds of search. */
  readonly searches?: Readonly<Record<string, number>>
}

// https://platform.openai.com/docs/pricing: web search 10 USD per 1,000 calls, file search 2.50 per 1,000 calls, code
// interpreter 0.03 for a container of 1 GB. Pictures are sold by the token of the image model: 0.25 USD is the most
// expensive one, 1536x1024 in high quality.
const openai: ToolFields = {
  web_search: 0.01,
  file_search: 0.0025,
  code_interpreter: 0.03,
  image_generation: 0.25,
}

// https://ai.google.dev/gemini-api/docs/pricing: grounding with Google Search or Maps. Searching files and running code
// cost tokens alone.
const google = (web_search: number): ToolFields => ({ web_search, file_search: 0, code_interpreter: 0 })

const TOOL_PRICES: readonly ToolPrices[] = [
  // Models that search with every request; the higher price is for those that do not reason.
  { owner: 'openai', models: /^gpt-4o(-mini)?-search-preview/, tools: { web_search: 0.025 } },
  {
    owner: 'openai',
    models: /^(ft:)?(gpt-4|chatgpt-4o)/,
    tools: openai,
    // The preview of the tool costs more with models that do not reason: 25 USD per 1,000 calls.
    searches: { preview: 0.025 },
  },
  { owner: 'openai', models: /^(gpt-[56]|gpt-chat|o\d|codex|computer-use)/, tools: openai },
  // https://docs.claude.com/en/docs/about-claude/pricing: web search 10 USD per 1,000; code runs in a container at 0.05 USD
  // an hour, of which five minutes are the least.
  { owner: 'anthropic', models: /^claude-/, tools: { web_search: 0.01, code_interpreter: 0.004166666667 } },
  // 14 USD per 1,000 queries from the third generation on, 35 USD per 1,000 grounded prompts before.
  { owner: 'google', models: /^gemini-([3-9]|flash-latest|pro-latest)/, tools: google(0.014) },
  { owner: 'google', models: /^gemini-/, tools: google(0.035) },
  // https://docs.x.ai/developers/pricing: searches of the web and of X, and code, 5 USD per 1,000; files that are attached
  // 10 USD per 1,000 (collections 2.50).
  {
    owner: 'xai',
    models: /^(x-ai\/)?grok-/,
    tools: { web_search: 0.005, file_search: 0.01, code_interpreter: 0.005 },
  },
  // https://docs.perplexity.ai/getting-started/pricing: a fee for each request, by the size of the search context, and
  // another for the search that plans several steps.
  {
    owner: 'perplexity',
    models: /^sonar(-reasoning)?$/,
    tools: { web_search: 0.005 },
    searches: { medium: 0.008, high: 0.012, pro: 0.014, 'pro-medium': 0.018, 'pro-high': 0.022 },
  },
  { owner: 'perplexity', models: /^sonar-pro-search$/, tools: { web_search: 0.018 } },
  {
    owner: 'perplexity',
    models: /^sonar-(reasoning-)?pro$/,
    tools: { web_search: 0.006 },
    searches: { medium: 0.01, high: 0.014, pro: 0.014, 'pro-medium': 0.018, 'pro-high': 0.022 },
  },
]

const fieldsOf = ({ tools, searches = {} }: ToolPrices): PriceFields => ({
  tools,
  variants: Object.entries(searches).map(([web_search, usd]) => ({
    when: { web_search },
    tools: { web_search: usd },
  })),
})

const prices = TOOL_PRICES.map(entry => {
  const reading = readPrice(fieldsOf(entry))
  if ('faults' in reading) throw new Error(`the shipped tool prices of ${entry.models} are wrong`)
  return { ...entry, price: reading.price }
})

/** The price of a model with the tool prices of its maker. Models without text output have no tools. */
export function withToolPrices(owner: string, model: string, price: Price): Price {
  if (!isPerToken(price.rates) || price.rates.output === undefined) return price
  const toolPrice = prices.find(entry => entry.owner === owner && entry.models.test(model))?.price
  if (toolPrice === undefined) return price
  const variants = [...(price.variants ?? []), ...(toolPrice.variants ?? [])]
  return {
    ...price,
    rates: { ...price.rates, ...toolPrice.rates },
    ...(variants.length > 0 && { variants }),
  }
}
