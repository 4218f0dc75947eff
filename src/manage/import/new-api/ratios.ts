import { isObject } from '../../../domain/json-object.ts'
import type { PriceInput } from '../../../domain/price.ts'
import type { SourcePrice } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import { objectOf, quoted, rateOf, textOf } from '../values.ts'
import { readExpression } from './expression.ts'

/**
 * Prices of new-api and one-api are ratios in options: a ratio of 1 is a unit per input token. Options are present only if
 * an administrator saved them; the defaults of the programs are not known here.
 */

type Rule = readonly [pattern: RegExp, ratio: number]

/** Output ratios that new-api does not let anyone change. */
const FIXED: readonly Rule[] = [
  [/^gpt-4o-2024-05-13$/, 3],
  [/^gpt-4\.5-preview/, 2],
  [/^gpt-4-turbo/, 3],
  [/^gpt-5\.4-nano/, 6.25],
  [/^gpt-5\.4/, 6],
  [/^gpt-5[^.]*$/, 8],
  [/^o[13]/, 4],
  [/^chatgpt-4o-latest$/, 3],
  [/claude-3|claude-sonnet-4|claude-opus-4|claude-haiku-4/, 5],
  [/^mistral-/, 3],
  [/^gemini-(1\.5|2\.0)/, 4],
  [/^command-r$/, 3],
  [/^command-r-plus$/, 5],
  [/^command-r(-plus)?-08-2024$/, 4],
  [/^ERNIE-(Speed-|Lite-|Character|Functions)/, 2],
  [/^llama2-70b-4096$/, 1.25],
  [/^llama3-8b-8192$/, 2],
  [/^llama3-70b-8192$/, 0.79 / 0.59],
]

/** Output ratios of models that the table does not have. */
const NEW_API_DEFAULTS: readonly Rule[] = [
  [/^gpt-4o-mini-tts/, 20],
  [/^gpt-4o/, 4],
  [/^gpt-5\./, 6],
  [/^gpt-/, 2],
  [/^gemini-2\.5-pro/, 8],
  [/^gemini-2\.5-flash-lite/, 4],
  [/^gemini-2\.5-flash-preview.*-nothinking/, 4],
  [/^gemini-2\.5-flash-preview/, 3.5 / 0.15],
  [/^gemini-2\.5-flash/, 2.5 / 0.3],
  [/^gemini-3-pro-image/, 60],
  [/^gemini-3-pro/, 6],
  [/^gemini-/, 4],
  [/^command/, 4],
]

const ONE_API_DEFAULTS: readonly Rule[] = [
  [/^gpt-4o/, 4],
  [/^gpt-4-turbo|^gpt-4.*preview$/, 3],
  [/^gpt-4/, 2],
  [/^o1/, 4],
  [/^claude-3/, 5],
  [/^claude-/, 3],
  [/^mistral-/, 3],
  [/^gemini-/, 3],
  [/^deepseek-/, 2],
]

/** Ratios of cached input while `CacheRatio` is not saved. */
const CACHE_DEFAULTS: readonly Rule[] = [
  [/^gpt-4o|^o1|^o3-mini/, 0.5],
  [/^gpt-4\.1|^deepseek-/, 0.25],
  [/^gpt-5|claude/, 0.1],
]

const CREATE_CACHE_DEFAULT = 1.25
/** Writes for an hour cost this much more than writes for five minutes. */
const ONE_HOUR_FACTOR = 1.6

/** Names that share one entry of the tables. */
const WILDCARDS = [
  'gpt-4-gizmo-*',
  'gpt-4o-gizmo-*',
  'gemini-2.5-flash-lite-thinking-*',
  'gemini-2.5-flash-thinking-*',
  'gemini-2.5-pro-thinking-*',
]

const ruleOf = (rules: readonly Rule[], model: string) => rules.find(([pattern]) => pattern.test(model))?.[1]

const tableName = (model: string) => WILDCARDS.find(name => model.startsWith(name.slice(0, -1))) ?? model

/** A ratio or price: a number of at least 0. */
const isRatio = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0

type Table = Readonly<Record<string, number>>

const OPTIONS = [
  'ModelRatio',
  'CompletionRatio',
  'CacheRatio',
  'CreateCacheRatio',
  'ImageRatio',
  'AudioRatio',
  'AudioCompletionRatio',
  'ModelPrice',
] as const
type Option = (typeof OPTIONS)[number]

/** A model that channels serve: the types of these channels, and what the model is mapped to. */
export type ServedModel = { readonly types: ReadonlySet<number>; readonly mappedTo: ReadonlySet<string> }

type RatioReading = {
  readonly options: ReadonlyMap<string, string>
  readonly variant: 'new-api' | 'one-api'
  readonly served: ReadonlyMap<string, ServedModel>
  /** The units of one USD. */
  readonly unitsPerUsd: number
  readonly notes: Pick<ImportNotes, 'note'>
}

export function readRatios({ options, variant, served, unitsPerUsd, notes }: RatioReading): SourcePrice[] {
  const warn = (model: string, message: string) => notes.note('price', `price of ${quoted(model)}`, message)

  function tableOf(option: Option): Table | undefined {
    if (!options.has(option)) return undefined
    const object = objectOf(options.get(option))
    if (!object) notes.note('price', `option ${option}`, 'is no valid JSON object; it is left out')
    return (
      object && (Object.fromEntries(Object.entries(object).filter(([, ratio]) => isRatio(ratio))) as Table)
    )
  }
  const tables = Object.fromEntries(OPTIONS.map(option => [option, tableOf(option)])) as Record<
    Option,
    Table | undefined
  >
  const find = (option: Option, model: string): number | undefined => {
    const table = tables[option]
    return table && Object.hasOwn(table, model) ? table[model] : undefined
  }
  const expressions = {
    modes: objectOf(options.get('billing_setting.billing_mode')) ?? {},
    texts: objectOf(options.get('billing_setting.billing_expr')) ?? {},
  }

  function completionRatio(model: string): number {
    const listed = find('CompletionRatio', model)
    if (variant === 'one-api') return listed ?? ruleOf(ONE_API_DEFAULTS, model) ?? 1
    if (model.includes('/') && listed !== undefined) return listed
    return ruleOf(FIXED, model) ?? listed ?? ruleOf(NEW_API_DEFAULTS, model) ?? 1
  }

  const cacheRatio = (model: string) =>
    tables.CacheRatio ? (find('CacheRatio', model) ?? 1) : (ruleOf(CACHE_DEFAULTS, model) ?? 1)

  function fromRatio(ratio: number, name: string): PriceInput {
    const input = (ratio * 1_000_000) / unitsPerUsd
    const usd = (factor: number) => rateOf(input * factor)
    const output = usd(completionRatio(name))
    if (variant === 'one-api') return { input: usd(1), output }
    const write = find('CreateCacheRatio', name) ?? CREATE_CACHE_DEFAULT
    const audio = find('AudioRatio', name)
    const image = find('ImageRatio', name)
    return {
      input: usd(1),
      output,
      cached_input: usd(cacheRatio(name)),
      cache_write: usd(write),
      cache_write_1h: usd(write * ONE_HOUR_FACTOR),
      ...(audio !== undefined && {
        audio_input: usd(audio),
        audio_output: usd(audio * (find('AudioCompletionRatio', name) ?? 1)),
      }),
      ...(image !== undefined && { image_input: usd(image) }),
    }
  }

  /** In one-api a name may have a ratio for the channels of one type. Prices here belong to names alone. */
  function typedRatio(model: string, types: ReadonlySet<number>): number | undefined {
    const typed = [...types].flatMap(type => find('ModelRatio', `${model}(${type})`) ?? [])
    const [first] = typed
    if (first === undefined) return undefined
    if (typed.length === types.size && typed.every(ratio => ratio === first)) return first
    warn(model, 'depends on the type of the channel there; here the price of the bare name applies to all')
    return undefined
  }

  function priceOf(model: string, types: ReadonlySet<number>): PriceInput | undefined {
    const name = variant === 'new-api' ? tableName(model) : model
    if (textOf(expressions.modes[model]) === 'tiered_expr') {
      const price = readExpression(textOf(expressions.texts[model]))
      if (!price)
        warn(model, 'is an expression that cannot be carried over; set a price before the model is used')
      return price
    }
    const perCall = variant === 'new-api' ? find('ModelPrice', name) : undefined
    if (perCall !== undefined) return { per_call: perCall }
    const ratio =
      variant === 'one-api'
        ? (typedRatio(model, types) ?? find('ModelRatio', model))
        : find('ModelRatio', name)
    return ratio === undefined ? undefined : fromRatio(ratio, name)
  }

  const unpriced: string[] = []
  const prices: SourcePrice[] = []
  for (const [model, { types, mappedTo }] of served) {
    // one-api charges the name that the model is mapped to.
    const charged = variant === 'one-api' ? [...mappedTo] : [model]
    const [first = model] = charged
    if (charged.length > 1)
      warn(
        model,
        `is that of the mapped name there, and channels map it differently; that of ${quoted(first)} is used`,
      )
    const price = priceOf(first, types)
    if (price) prices.push({ model, price })
    else unpriced.push(model)
  }
  for (const model of unpriced)
    warn(model, 'is not saved in the options of the source; the built-in price applies here, if there is one')
  return prices
}

/** Groups whose requests cost another factor than 1; undefined if the options have none. */
export function readGroupFactors(options: ReadonlyMap<string, string>): Map<string, number> {
  const factors = new Map<string, number>()
  for (const [group, ratio] of Object.entries(objectOf(options.get('GroupRatio')) ?? {}))
    if (isRatio(ratio) && ratio !== 1) factors.set(group, ratio)
  return factors
}

/** Whether the options have factors for pairs of groups. */
export const hasGroupPairs = (options: ReadonlyMap<string, string>): boolean =>
  Object.values(objectOf(options.get('GroupGroupRatio')) ?? {}).some(
    pairs => isObject(pairs) && Object.keys(pairs).length > 0,
  )
