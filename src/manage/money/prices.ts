import { isDeepStrictEqual } from 'node:util'
import { invalid, invalidField, notFound, Refusal } from '../../domain/errors.ts'
import { scaled } from '../../domain/money.ts'
import {
  FACTOR_DIGITS,
  multiplyPrice,
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
  pricesInForce,
} from '../../store/records/prices.ts'
import { listServed } from '../channels/served.ts'
import type { priceContract } from '../contract/prices.ts'
import type { Changing, Handlers, RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'

/** An effective time at most this far in the past counts as now, because clocks differ. An earlier one is an error. */
const GRACE_S = 60

const presentVersion = (row: PriceVersion) => {
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

const presentShipped = (model: string, price: Price) => ({
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

type PriceView = ReturnType<typeof presentVersion> | ReturnType<typeof presentShipped>

function parsePriceInput(input: PriceInput): Price {
  const reading = readPrice(input)
  if ('price' in reading) return reading.price
  throw invalid(reading.faults.map(({ path, message }) => ({ path: path || 'body', message })))
}

/** A price with the changed fields. A field with two names can be changed by either. */
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

/** The effective time of a price. It must not be in the past, because prices do not apply retroactively. */
function readEffective(effectiveFrom: number | undefined, now: number): number {
  if (effectiveFrom === undefined || effectiveFrom === 0) return now
  if (effectiveFrom < now - GRACE_S)
    throw invalidField(
      'effective_time',
      'must not be in the past; omit it for a price that applies from now on',
    )
  return Math.max(effectiveFrom, now)
}

/** Prices of models: versions by administrators over the shipped table (docs/reference/money.md: Price versions). */
export function createPriceHandlers({ db, now }: Deps): Handlers<typeof priceContract> {
  const shipped = (model: string) => {
    const price = shippedPrice(model, now() * 1000)
    return price && presentShipped(model, price)
  }

  /** The names of the shipped table that match a filter. A requested name may also have a date suffix. */
  function shippedNames({ model, keyword }: PriceFilter): string[] {
    const part = keyword === undefined ? '' : fold(keyword)
    const names = model === undefined ? shippedModels() : [model]
    const isPriced = (name: string) => shippedPrice(name, now() * 1000) !== undefined
    return names.filter(name => fold(name).includes(part) && isPriced(name)).sort()
  }

  const shippedRows = (names: readonly string[]) => names.flatMap(name => shipped(name) ?? [])

  async function listShipped(filter: PriceFilter, { page, pageSize }: Paging): Promise<Page<PriceView>> {
    const names = shippedNames(filter)
    const start = (page - 1) * pageSize
    return { items: shippedRows(names.slice(start, start + pageSize)), total: names.length }
  }

  async function listAdmin(filter: PriceFilter, paging: Paging): Promise<Page<PriceView>> {
    const { items, total } = await listPricesInForce(db, filter, now(), paging)
    return { items: items.map(presentVersion), total }
  }

  /** One row per model: an administrator's price takes precedence over the shipped one, as it does in force. */
  async function listBoth(filter: PriceFilter, paging: Paging): Promise<Page<PriceView>> {
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

  /** The prices that requests to the enabled channels are charged by, by model name. */
  async function listInUse(
    { model, keyword = '' }: PriceFilter,
    { page, pageSize }: Paging,
    source: 'admin' | 'shipped' | undefined,
  ): Promise<Page<PriceView>> {
    const [served, prices] = await Promise.all([listServed(db), pricesInForce(db, now())])
    const sourceOf = (name: string) => {
      if (prices.has(name)) return 'admin'
      return shippedPrice(name, now() * 1000) === undefined ? undefined : 'shipped'
    }
    const priced = served.flatMap(({ pricedAs }) => pricedAs.find(name => sourceOf(name) !== undefined) ?? [])
    const names = [...new Set(priced)]
      .filter(name => model === undefined || name === model)
      .filter(name => source === undefined || sourceOf(name) === source)
      .filter(name => fold(name).includes(fold(keyword)))
      .sort()
    const start = (page - 1) * pageSize
    const views = await Promise.all(
      names.slice(start, start + pageSize).map(name => presentInForce(db, name)),
    )
    return { items: views.flatMap(view => view ?? []), total: names.length }
  }

  const LISTS = { admin: listAdmin, shipped: listShipped, both: listBoth } as const

  const presentInForce = async (source: Db, model: string): Promise<PriceView | undefined> => {
    const row = await findPriceInForce(source, model, now())
    return row ? presentVersion(row) : shipped(model)
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

  /** Inserts a version. The audit record contains the previous and the new price. */
  async function insert({ trx, audit }: Changing, newPrice: NewPrice): Promise<PriceView> {
    const before = await presentInForce(trx, newPrice.model)
    const id = await insertPrice(trx, newPrice)
    const after = presentVersion(await mustFind(trx, id))
    audit({ action: 'price.create', target: `price:${id}`, before, after })
    return after
  }

  type Batch = Pick<RouteCall<(typeof priceContract)['changePrices']>, 'actor' | 'change'> & {
    readonly models: readonly string[]
    readonly isDry: boolean
    /** The new price of a model, from its current one. */
    newPriceOf(model: string, before: Price | undefined): Price
  }

  /** New versions of several prices in one transaction. A refused one does not affect the others. */
  async function changeAll({ actor, change, models, isDry, newPriceOf: want }: Batch) {
    async function look(source: Db, model: string) {
      const before = await inForce(source, model)
      const outcome = { model, code: '', message: '', before: before ? presentedPrice(before) : null }
      try {
        const price = want(model, before)
        const after = presentedPrice(price)
        return {
          price,
          outcome: { ...outcome, is_changed: !isDeepStrictEqual(after, outcome.before), after },
        }
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const { code, message } = error
        return { price: undefined, outcome: { ...outcome, is_changed: false, code, message, after: null } }
      }
    }
    if (isDry) return Promise.all(models.map(async model => (await look(db, model)).outcome))
    return change(async changing => {
      const results = []
      for (const model of models) {
        const { price, outcome } = await look(changing.trx, model)
        results.push(outcome)
        if (!price || !outcome.is_changed) continue
        const time = now()
        await insert(changing, { model, price, effectiveTime: time, time, authorId: actor.id })
      }
      return results
    })
  }

  return {
    changePrices: async ({ actor, body, change }) => {
      const fieldsByModel = new Map(body.prices.map(({ model, ...fields }) => [model, fields]))
      if (fieldsByModel.size < body.prices.length)
        throw invalidField('prices', 'must not contain a model twice')
      return changeAll({
        actor,
        change,
        models: [...fieldsByModel.keys()],
        isDry: body.dry_run ?? false,
        newPriceOf(model, before) {
          return parsePriceInput(mergedPrice(before && priceFields(before), fieldsByModel.get(model) ?? {}))
        },
      })
    },

    multiplyPrices: async ({ actor, body, change }) => {
      const { factor, models } = body
      if (scaled(factor, FACTOR_DIGITS) === undefined)
        throw invalidField('factor', `must have at most ${FACTOR_DIGITS} decimals`)
      return changeAll({
        actor,
        change,
        models: [...new Set(models)],
        isDry: body.dry_run ?? false,
        newPriceOf(_model, before) {
          if (!before) throw new Refusal('not_found', 'The model has no price to multiply.')
          const after = multiplyPrice(before, factor)
          if (!after) throw invalidField('factor', 'would make a price too large')
          return after
        },
      })
    },

    listPrices: async ({ query: { paging, source, in_use, ...filter } }) => {
      const list = in_use ? listInUse(filter, paging, source) : LISTS[source ?? 'both'](filter, paging)
      return presentPage(await list, paging, view => view)
    },

    listPriceHistory: async ({ query: { paging, model } }) =>
      presentPage(await listPriceHistory(db, model, paging), paging, row => ({
        ...presentVersion(row),
        ended_time: row.ended_time,
      })),

    createPrice: async ({ actor, body, change }) => {
      const price = parsePriceInput(body)
      return change(changing => {
        const time = now()
        const effectiveTime = readEffective(body.effective_time, time)
        return insert(changing, { model: body.model, price, effectiveTime, time, authorId: actor.id })
      })
    },

    deletePrice: async ({ params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await mustFind(trx, params.id)
        const before = await presentInForce(trx, row.model)
        if ((await endPrices(trx, row.model, now())) === 0) throw notFound('price')
        const after = await presentInForce(trx, row.model)
        audit({ action: 'price.delete', target: `price:${row.id}`, before, after })
        return undefined
      }),
  }
}
