import { type Price, type PriceFields, readPrice } from '../../domain/price.ts'
import { type Listing, tokenPrices } from './token-prices.ts'
import { withToolPrices } from './tools.ts'
import { vendors } from './vendors.ts'

/**
 * The prices that come with the product, for models an administrator has not priced.
 * The table is built at the first question, which takes tens of milliseconds: ask once at start, before requests come.
 */
let table: ReadonlyMap<string, Listing> | undefined

/** What a model costs at a moment, by its exact name or by the name before a date; never by a prefix. */
export function shippedPrice(model: string, nowMs: number = Date.now()): Price | undefined {
  return listing(model)?.prices.findLast(dated => dated.fromMs <= nowMs)?.price
}

/** Whose model it is, as a short label such as `openai`. */
export function shippedOwner(model: string): string | undefined {
  return listing(model)?.owner
}

/** Every listed name; names with a date are known without being listed. */
export function shippedModels(): readonly string[] {
  return [...shippedTable().keys()]
}

/**
 * A dated snapshot costs what its model costs: `-2024-08-06`, `-20240806`, and `@20240806` as one cloud writes it.
 * Four or six digits (`-0613`, `-2603`, `-260128`) are no date here: they are as often a version, and such snapshots
 * were sold at other prices. Those that have one are listed by their whole names.
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

function buildTable(): ReadonlyMap<string, Listing> {
  const listings = tokenPrices()
  for (const { owner, models } of vendors) {
    for (const [model, fields] of Object.entries(models)) {
      listings.set(model, { owner, prices: [{ fromMs: 0, price: ownPrice(model, fields) }] })
    }
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
