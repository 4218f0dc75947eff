import { type Price, type PriceFields, readPrice } from '../../domain/price.ts'
import { resellerPrice } from './reseller-price.ts'
import { type Listing, tokenPrices } from './token-prices.ts'
import { withToolPrices } from './tools.ts'
import { vendors } from './vendors.ts'

/**
 * The built-in prices, for models without a price of an administrator. The first call builds the table, which takes tens of
 * milliseconds, so it is made at start.
 */
let table: ReadonlyMap<string, Listing> | undefined

/** The price of a model at a time, by its exact name or by the name before a date; never by a prefix. */
export function shippedPrice(model: string, nowMs: number = Date.now()): Price | undefined {
  return listing(model)?.prices.findLast(dated => dated.fromMs <= nowMs)?.price
}

/** The maker of a model, as a short label such as `openai`. */
export function shippedOwner(model: string): string | undefined {
  return listing(model)?.owner
}

/** All listed names; dated snapshots are found without being listed. */
export function shippedModels(): readonly string[] {
  return [...shippedTable().keys()]
}

/**
 * A dated snapshot has the price of its model: `-2024-08-06`, `-20240806`, and `@20240806` on Vertex AI. Four or six digits
 * (`-0613`, `-2603`, `-260128`) do not count as a date: they are as often a version, and such snapshots had other prices.
 * Those that have a price are listed by their full names.
 */
const DATE = /[-@]20\d\d(-?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])$/

function listing(model: string): Listing | undefined {
  const listings = shippedTable()
  return listings.get(model) ?? listings.get(model.replace(DATE, ''))
}

function shippedTable(): ReadonlyMap<string, Listing> {
  table ??= buildTable()
  return table
}

/** The maker's name of a model: `google/gemini-2.5-pro:beta` is `gemini-2.5-pro`. Empty for a name without a maker. */
const makersName = (model: string): string => /^[^/]+\/([^/:]+)(?::[^/]+)?$/.exec(model)?.[1] ?? ''

function buildTable(): ReadonlyMap<string, Listing> {
  const listings = tokenPrices()
  for (const { owner, models } of vendors) {
    for (const [model, fields] of Object.entries(models)) {
      listings.set(model, { owner, prices: [{ fromMs: 0, price: ownPrice(model, fields) }] })
    }
  }
  for (const [model, { owner, prices }] of listings) {
    const maker = listings.get(makersName(model))?.prices.at(-1)
    if (maker === undefined) continue
    listings.set(model, {
      owner,
      prices: prices.map(({ fromMs, price }) => ({ fromMs, price: resellerPrice(price, maker.price) })),
    })
  }
  for (const [model, { owner, prices }] of listings) {
    listings.set(model, {
      owner,
      prices: prices.map(({ fromMs, price }) => ({ fromMs, price: withToolPrices(owner, model, price) })),
    })
  }
  return listings
}

function ownPrice(model: string, fields: PriceFields): Price {
  const reading = readPrice(fields)
  if ('price' in reading) return reading.price
  const faults = reading.faults.map(({ path, message }) => `${path} ${message}`)
  throw new Error(`the shipped price of ${model} is wrong: ${faults.join('; ')}`)
}
