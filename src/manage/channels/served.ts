import type { Db } from '../../store/engine/store.ts'
import { type EnabledAlias, listEnabledAliases } from '../../store/records/aliases.ts'
import { enabledModels } from '../../store/records/channels.ts'
import { listMapped, listServingChannels } from '../../store/records/served.ts'

/**
 * A model name that clients can request, and the names that may have its price, first match first
 * (docs/reference/money.md: Which price applies).
 */
export type Served = { readonly name: string; readonly pricedAs: readonly string[] }

/** The resolution of a name through aliases: all names including itself, the target, and the channels if restricted. */
type Resolution = {
  readonly name: string
  readonly names: readonly string[]
  readonly target: string
  readonly only: Only
}
type Only = ReadonlySet<number> | undefined

function narrowed(only: Only, { channelIds }: EnabledAlias): Only {
  if (channelIds === null || channelIds.length === 0) return only
  return new Set(only === undefined ? channelIds : channelIds.filter(id => only.has(id)))
}

export function resolutionOf(aliases: ReadonlyMap<string, EnabledAlias>, name: string): Resolution {
  const names = [name]
  let target = name
  let only: Only
  for (let alias = aliases.get(name); alias !== undefined; alias = aliases.get(target)) {
    // Saving refuses alias cycles. The check here prevents an endless loop if a stored row has one anyway.
    if (names.includes(alias.target)) break
    target = alias.target
    names.push(target)
    only = narrowed(only, alias)
  }
  return { name, names, target, only }
}

/** Models of enabled channels, and aliases that such a channel serves, by name. */
export async function listServed(db: Db): Promise<Served[]> {
  const [models, enabledAliases, mapped] = await Promise.all([
    enabledModels(db),
    listEnabledAliases(db),
    listMapped(db),
  ])
  const listed = new Set(models)
  const aliases = new Map(enabledAliases.map(alias => [alias.name, alias]))
  const resolutions = [...listed.union(aliases)].map(name => resolutionOf(aliases, name))
  const narrow = resolutions.flatMap(({ target, only }) => (only && listed.has(target) ? target : []))
  const backers = await listServingChannels(db, [...new Set(narrow)])
  const mappedByModel = Map.groupBy(mapped, ({ model }) => model)

  const isBacked = ({ target, only }: Resolution) =>
    only === undefined ? listed.has(target) : (backers.get(target) ?? []).some(id => only.has(id))
  const sentAs = ({ target, only }: Resolution) =>
    (mappedByModel.get(target) ?? [])
      .filter(({ channelId }) => only === undefined || only.has(channelId))
      .map(each => each.sentAs)

  return resolutions
    .filter(isBacked)
    .map(way => ({
      name: way.name,
      pricedAs: [...new Set([...way.names, ...sentAs(way)])],
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}
