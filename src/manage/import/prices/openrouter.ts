import { isObject, type JsonObject } from '../../../domain/json-object.ts'
import type { PriceInput } from '../../../domain/price.ts'
import type { SourcePrice } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import { SourceError } from '../source/database.ts'
import { quoted, rateOf, textOf } from '../values.ts'

/** Prices of OpenRouter's list of models, in USD per token or per call. */

const MILLION = 1_000_000
const MAX_MODELS = 20_000
/** Fees that a price here cannot have beside those of tokens. */
const OTHER_FEES = ['request', 'image', 'audio'] as const

/** A price as text or number; undefined if it is absent, and null if it is no price (-1: the router chooses). */
function readUsd(value: unknown): number | null | undefined {
  if (value === undefined || value === null || value === '') return undefined
  const usd = Number(textOf(value))
  return Number.isFinite(usd) && usd >= 0 ? usd : null
}

const perMillion = (usd: number) => rateOf(usd * MILLION)

/** The price of an entry, or the reason why it has none. */
function priceOf(
  pricing: JsonObject,
  outputLimit: unknown,
): { price: PriceInput; omitted: string[] } | string {
  const [input, output] = [readUsd(pricing.prompt), readUsd(pricing.completion)]
  if (input == null || output == null) return 'has no fixed price there'
  const omitted = OTHER_FEES.filter(name => (readUsd(pricing[name]) ?? 0) > 0)
  if (omitted.includes('request'))
    return 'has a fee per request beside its tokens, which prices here cannot have'
  const optional = (name: string, field: string) => {
    const usd = readUsd(pricing[name])
    return usd == null || usd === 0 ? {} : { [field]: perMillion(usd) }
  }
  const search = readUsd(pricing.web_search)
  const limit = Number(outputLimit)
  return {
    price: {
      input: perMillion(input),
      output: perMillion(output),
      ...optional('input_cache_read', 'cached_input'),
      ...optional('input_cache_write', 'cache_write'),
      ...optional('internal_reasoning', 'reasoning'),
      ...(search != null && search > 0 && { tools: { web_search: search } }),
      ...(Number.isSafeInteger(limit) && limit > 0 && { max_output_tokens: limit }),
    },
    omitted,
  }
}

type Options = {
  /** The models that channels here serve; undefined for all models of the list. */
  readonly served: readonly string[] | undefined
  readonly notes: ImportNotes
}

/** Prices for the served models: by the whole id, or by the name after the vendor if only one id has it. */
export function readOpenRouterPrices(list: unknown, { served, notes }: Options): SourcePrice[] {
  const data = isObject(list) ? list.data : undefined
  if (!Array.isArray(data))
    throw new SourceError('the list of models has no "data"; it is not the list of OpenRouter')
  if (data.length > MAX_MODELS)
    throw new SourceError(`the list has ${data.length} models; the maximum is ${MAX_MODELS}`)
  const entries = new Map<string, JsonObject>()
  const byName = new Map<string, string[]>()
  for (const entry of data as unknown[]) {
    if (!isObject(entry) || !isObject(entry.pricing) || typeof entry.id !== 'string') continue
    const name = entry.id.slice(entry.id.indexOf('/') + 1)
    entries.set(entry.id, entry)
    byName.set(name, [...(byName.get(name) ?? []), entry.id])
  }
  const prices: SourcePrice[] = []
  for (const model of served ?? entries.keys()) {
    const subject = `price of ${quoted(model)}`
    const ids = entries.has(model) ? [model] : (byName.get(model) ?? [])
    const [id] = ids
    if (id === undefined) continue
    if (ids.length > 1) {
      notes.note(
        'price',
        subject,
        `has several vendors there (${ids.slice(0, 5).map(quoted).join(', ')}); it is left out`,
      )
      continue
    }
    const entry = entries.get(id) ?? {}
    const provider = isObject(entry.top_provider) ? entry.top_provider : {}
    const result = priceOf(entry.pricing as JsonObject, provider.max_completion_tokens)
    if (typeof result === 'string') {
      notes.note('price', subject, result)
      continue
    }
    if (result.omitted.length > 0)
      notes.note('price', subject, `has further fees there, which are left out: ${result.omitted.join(', ')}`)
    prices.push({ model, price: result.price })
  }
  return prices
}
