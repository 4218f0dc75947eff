import type { Digest } from '../../identity/credentials.ts'
import type { ImportRow } from '../../store/engine/schema.ts'
import { stateOf } from './context.ts'
import { digestFields } from './difference.ts'
import type { SourceChannel } from './inventory.ts'

const withoutKey = (sourceId: string) => sourceId.replace(/ [0-9a-f]{16}( \d+)?$/, '')

type Side<Item> = { readonly item: Item; readonly identity: string; readonly name: string | undefined }

/** Items of both sides that are the only ones of their side with a text. */
function pairsOf<One, Other>(
  ones: readonly Side<One>[],
  others: readonly Side<Other>[],
  textOf: (side: Side<unknown>) => string,
): Map<One, Other> {
  const candidates = Map.groupBy(others, textOf)
  const pairs = new Map<One, Other>()
  for (const [text, [one, ...rivals]] of Map.groupBy(ones, textOf)) {
    const [other, ...more] = candidates.get(text) ?? []
    if (one && other && rivals.length === 0 && more.length === 0) pairs.set(one.item, other.item)
  }
  return pairs
}

/**
 * Imported rows of channels whose key was changed in the source, by the ID that the channel has there now. It is the
 * same channel if its models are the same, and if no other one could be meant.
 */
export function findRotatedChannels(
  imported: ReadonlyMap<string, ImportRow>,
  channels: readonly SourceChannel[],
  digest: Digest,
): ReadonlyMap<string, ImportRow> {
  const present = new Set(channels.map(({ sourceId }) => sourceId))
  const fresh = channels.flatMap(({ sourceId, identityWithoutKey, fields }): Side<string>[] => {
    if (identityWithoutKey === undefined || imported.has(sourceId)) return []
    const texts = { models: JSON.stringify(fields.models), name: String(fields.name) }
    const { models, name } = digestFields(texts, digest)
    return [{ item: sourceId, identity: `${identityWithoutKey} ${models}`, name }]
  })
  const former = [...imported.values()].flatMap((row): Side<ImportRow>[] => {
    if (present.has(row.source_id)) return []
    const { models, name } = stateOf(row).fields ?? {}
    return [{ item: row, identity: `${withoutKey(row.source_id)} ${models}`, name }]
  })
  const byName = pairsOf(fresh, former, ({ identity, name }) => `${identity} ${name}`)
  const rows = new Set(byName.values())
  const others = pairsOf(
    fresh.filter(({ item }) => !byName.has(item)),
    former.filter(({ item }) => !rows.has(item)),
    ({ identity }) => identity,
  )
  return new Map([...byName, ...others])
}
