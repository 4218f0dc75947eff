import { useCall } from '../../api/query.ts'

/** The names of the channels, by id. */
export function useChannelNames(): ReadonlyMap<number, string> {
  const { data } = useCall('listChannels', { query: { page_size: 500 } }, { staleMs: 60_000 })
  return new Map(data?.items.flatMap(item => ('id' in item ? [[item.id, item.name] as const] : [])))
}
