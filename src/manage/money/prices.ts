import { isDeepStrictEqual } from 'node:util'
import { invalid, invalidField, notFound, Refusal } from '../../domain/errors.ts'
import { scaled } from '../../domain/money.ts'
import {
  FACTOR_DIGITS,
  multiplied,
  type Price,
  type PriceFields,
  type PriceInput,
  presentedPrice,
  priceFields,
  quotaType,
  readPrice,
} from '../../domain/price.ts'
import { fold } from '../../domain/text.ts'
import { shippedModels, shippedPrice } from '../../providers/prices/shipped.ts'
import type { Page, Paging } from '../../store/engine/page.ts'
import type { Db } from '../../store/engine/store.ts'
import {
  endPrices,
  findPrice,
  findPriceInForce,
  insertPrice,
  listPriceHistory,
  listPricesInForce,
  type NewPrice,
  type PriceFilter,
  type PriceVersion,
  pricedAmong,
} from '../../store/records/prices.ts'
import type { priceContract } from '../contract/prices.ts'
import type { Changing, Handlers, RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'

/** Clocks differ a little: a moment that has just passed is now, an earlier one a mistake. */
const GRACE_S = 60

const tellVersion = (row: PriceVersion) => {
  const price = JSON.parse(row.price) as Price
  return {
    id: row.id,
    model: row.model,
    version: row.version,
    source: 'admin' as const,
    quota_type: quotaType(price),
    ...presentedPrice(price),
    effective_time: row.effective_time,
    created_time: row.created_time,
    author: row.author_name === null ? null : { id: row.author_id, username: row.author_name },
  }
}

const tellShipped = (model: string, price: Price) => ({
  id: null,
  model,
  version: 0,
  source: 'shipped' as const,
  quota_type: quotaType(price),
  ...presentedPrice(price),
  effective_time: 0,
  created_time: 0,
  author: null,
})

type Told = ReturnType<typeof tellVersion> | ReturnType<typeof tellShipped>

function readGiven(given: PriceInput): Price {
  const reading = readPrice(given)
  if ('price' in reading) return reading.price
  throw invalid(reading.faults.map(({ path, message }) => ({ path: path || 'body', message })))
}

/** A price with the fields of a change laid over it; a field that has two names is changed under either. */
function mergedPrice(before: PriceFields | undefined, change: PriceInput): PriceInput {
  const renamed = { ...before, ...(change.per_image != null && { image: null }) }
  if (change.tools == null) return { ...renamed, ...change }
  const { web_search, ...tools } = change.tools
  const isBoth = change.per_search != null && web_search != null
  return {
    ...renamed,
    ...change,
    ...(web_search !== undefined && { per_search: change.per_search ?? web_search }),
    tools: { ...before?.tools, ...tools, ...(isBoth && { web_search }) },
  }
}

/** Nothing is priced backwards: what was admitted under another price stays so. */
function readEffective(given: number | undefined, now: number): number {
  if (given === undefined || given === 0) return now
  if (given < now - GRACE_S)
    throw invalidField('effective_time', 'lies in the past; leave it out for a price that counts from now on')
  return Math.max(given, now)
}

/** Prices of models: versions by administrators over the shipped table (docs/reference/money.md: Price versions). */
export function createPriceHandlers({ db, now }: Deps): Handlers<typeof priceContract> {
  const shipped = (model: string) => {
    const price = shippedPrice(model, now() * 1000)
    return price && tellShipped(model, price)
  }

  /** The names of the product's table that a filter leaves; one asked for by name may also carry a date. */
  function shippedNames({ model, keyword }: PriceFilter): string[] {
    const part = keyword === undefined ? '' : fold(keyword)
    const names = model === undefined ? shippedModels() : [model]
    const isPriced = (name: string) => shippedPrice(name, now() * 1000) !== undefined
    return names.filter(name => fold(name).includes(part) && isPriced(name)).sort()
  }

  const shippedRows = (names: readonly string[]) => names.flatMap(name => shipped(name) ?? [])

  async function listShipped(filter: PriceFilter, { page, pageSize }: Paging): Promise<Page<Told>> {
    const names = shippedNames(filter)
    const start = (page - 1) * pageSize
    return { items: shippedRows(names.slice(start, start + pageSize)), total: names.length }
  }

  async function listAdmin(filter: PriceFilter, paging: Paging): Promise<Page<Told>> {
    const { items, total } = await listPricesInForce(db, filter, now(), paging)
    return { items: items.map(tellVersion), total }
  }

  /** One row a model: an administrators' price stands before the product's, in the list as in force. */
  async function listBoth(filter: PriceFilter, paging: Paging): Promise<Page<Told>> {
    const names = shippedNames(filter)
    const [admin, priced] = await Promise.all([listAdmin(filter, paging), pricedAmong(db, names, now())])
    const others = names.filter(name => !priced.has(name))
    const start = Math.max(0, (paging.page - 1) * paging.pageSize - admin.total)
    const room = paging.pageSize - admin.items.length
    return {
      items: [...admin.items, ...shippedRows(others.slice(start, start + room))],
      total: admin.total + others.length,
    }
  }

  const LISTS = { admin: listAdmin, shipped: listShipped, both: listBoth } as const

  const tellInForce = async (source: Db, model: string): Promise<Told | undefined> => {
    const row = await findPriceInForce(source, model, now())
    return row ? tellVersion(row) : shipped(model)
  }

  async function mustFind(source: Db, id: number): Promise<PriceVersion> {
    const row = await findPrice(source, id)
    if (!row) throw notFound('price')
    return row
  }

  const inForce = async (source: Db, model: string): Promise<Price | undefined> => {
    const row = await findPriceInForce(source, model, now())
    return row ? (JSON.parse(row.price) as Price) : shippedPrice(model, now() * 1000)
  }

  /** The audit tells what the model costs until now, and what it is to cost. */
  async function insert({ trx, audit }: Changing, given: NewPrice): Promise<Told> {
    const before = await tellInForce(trx, given.model)
    const id = await insertPrice(trx, given)
    const after = tellVersion(await mustFind(trx, id))
    audit({ action: 'price.create', target: `price:${id}`, before, after })
    return after
  }

  type Batch = Pick<RouteCall<(typeof priceContract)['changePrices']>, 'actor' | 'change'> & {
    readonly models: readonly string[]
    readonly isDry: boolean
    /** What a model is to cost, given what it costs. */
    want(model: string, before: Price | undefined): Price
  }

  /** New versions of several prices in one transaction; one that is refused leaves the others alone. */
  async function changeAll({ actor, change, models, isDry, want }: Batch) {
    async function look(source: Db, model: string) {
      const before = await inForce(source, model)
      const told = { model, code: '', message: '', before: before ? presentedPrice(before) : null }
      try {
        const price = want(model, before)
        const after = presentedPrice(price)
        return { price, told: { ...told, is_changed: !isDeepStrictEqual(after, told.before), after } }
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const { code, message } = error
        return { price: undefined, told: { ...told, is_changed: false, code, message, after: null } }
      }
    }
    if (isDry) return Promise.all(models.map(async model => (await look(db, model)).told))
    return change(async changing => {
      const results = []
      for (const model of models) {
        const { price, told } = await look(changing.trx, model)
        results.push(told)
        if (!price || !told.is_changed) continue
        const time = now()
        await insert(changing, { model, price, effectiveTime: time, time, authorId: actor.id })
      }
      return results
    })
  }

  return {
    changePrices: async ({ actor, body, change }) => {
      const given = new Map(body.prices.map(({ model, ...fields }) => [model, fields]))
      if (given.size < body.prices.length) throw invalidField('prices', 'names a model twice')
      return changeAll({
        actor,
        change,
        models: [...given.keys()],
        isDry: body.dry_run ?? false,
        want(model, before) {
          return readGiven(mergedPrice(before && priceFields(before), given.get(model) ?? {}))
        },
      })
    },

    multiplyPrices: async ({ actor, body, change }) => {
      const { factor, models } = body
      if (scaled(factor, FACTOR_DIGITS) === undefined)
        throw invalidField('factor', `has more than ${FACTOR_DIGITS} decimals`)
      return changeAll({
        actor,
        change,
        models: [...new Set(models)],
        isDry: body.dry_run ?? false,
        want(_model, before) {
          if (!before) throw new Refusal('not_found', 'it has no price to multiply')
          const after = multiplied(before, factor)
          if (!after) throw invalidField('factor', 'would take a price beyond what one can be')
          return after
        },
      })
    },

    listPrices: async ({ query: { paging, source, ...filter } }) =>
      presentPage(await LISTS[source ?? 'both'](filter, paging), paging, told => told),

    listPriceHistory: async ({ query: { paging, model } }) =>
      presentPage(await listPriceHistory(db, model, paging), paging, row => ({
        ...tellVersion(row),
        ended_time: row.ended_time,
      })),

    createPrice: async ({ actor, body, change }) => {
      const price = readGiven(body)
      return change(changing => {
        const time = now()
        const effectiveTime = readEffective(body.effective_time, time)
        return insert(changing, { model: body.model, price, effectiveTime, time, authorId: actor.id })
      })
    },

    deletePrice: async ({ params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await mustFind(trx, params.id)
        const before = await tellInForce(trx, row.model)
        if ((await endPrices(trx, row.model, now())) === 0) throw notFound('price')
        const after = await tellInForce(trx, row.model)
        audit({ action: 'price.delete', target: `price:${row.id}`, before, after })
        return undefined
      }),
  }
}
