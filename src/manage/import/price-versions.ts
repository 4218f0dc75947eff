import { type Price, priceFields, readPrice } from '../../domain/price.ts'
import { shippedPrice } from '../../providers/prices/shipped.ts'
import { transact } from '../../store/engine/store.ts'
import { findImports, saveImports } from '../../store/records/imports.ts'
import { insertPrice, pricesInForce } from '../../store/records/prices.ts'
import { modelName } from '../contract/fields.ts'
import { auditImport, type ImportContext, importRow, stateOf } from './context.ts'
import { digestFields } from './difference.ts'
import type { SourcePrice } from './inventory.ts'
import { quoted } from './values.ts'

const SYSTEM_AUTHOR = 0
/** Prices per transaction; each locks the audit chain. */
const CHUNK = 50

type Checked = {
  readonly model: string
  readonly price: Price
  readonly fields: Readonly<Record<string, string>>
}

/** Writes imported prices as new versions. A price that was set here stays. */
export async function importPrices(
  context: ImportContext,
  prices: readonly SourcePrice[],
  { isReplacing = false } = {},
): Promise<void> {
  const { db, digest, isDry, notes, now, source } = context
  const imported = await findImports(db, source, 'price')
  const inForce = await pricesInForce(db, now())

  function check({ model, price: input }: SourcePrice): Checked | undefined {
    const skip = (message: string) => {
      notes.count('prices', 'skipped')
      notes.note('price', `price of ${quoted(model)}`, message)
      return undefined
    }
    if (!modelName.safeParse(model).success) return skip('is not a name of a model; it is left out')
    const reading = readPrice(input)
    if ('faults' in reading) {
      const [fault] = reading.faults
      return skip(`is left out: ${fault?.path} ${fault?.message}`)
    }
    const { price } = reading
    const fields = digestFields({ price: JSON.stringify(price) }, digest)
    const last = imported.get(model)
    const current = inForce.get(model)
    if (last && stateOf(last).fields?.price === fields.price) {
      notes.count('prices', 'unchanged')
      return undefined
    }
    if (current && JSON.stringify(current.price) === JSON.stringify(price)) {
      notes.count('prices', 'unchanged')
      return undefined
    }
    if (current && current.id !== last?.target_id && !isReplacing)
      return skip('a price was set here; it stays')
    if (last && !current && !isReplacing) return skip('its imported price was ended here; it stays so')
    notes.count('prices', last ? 'changed' : 'created')
    return { model, price, fields }
  }

  const checked = prices.flatMap(price => check(price) ?? [])
  if (isDry) return
  for (let start = 0; start < checked.length; start += CHUNK) {
    const priceIds = await transact(db, async trx => {
      const ids: number[] = []
      for (const { model, price, fields } of checked.slice(start, start + CHUNK)) {
        const time = now()
        const id = await insertPrice(trx, {
          model,
          price,
          effectiveTime: time,
          time,
          authorId: SYSTEM_AUTHOR,
        })
        await saveImports(trx, [
          importRow(context, 'price', { sourceId: model, targetId: id, state: { fields } }),
        ])
        const before = inForce.get(model)?.price ?? shippedPrice(model, time * 1000)
        await auditImport(trx, context, {
          action: 'price.create',
          target: `price:${id}`,
          after: { model, source, price: priceFields(price), before: before && priceFields(before) },
        })
        ids.push(id)
      }
      return ids
    })
    await context.announce(priceIds.map(id => `price:${id}`))
  }
}
