import { useCall } from '../../api/query.ts'

const STALE_MS = 60_000
/** The built-in prices of a model also apply to its dated versions. */
const DATED = /-\d{4}-?\d{2}-?\d{2}$/

/** Whether a model has a price, judged by its name. The gateway decides at request time. */
export function useIsPriced(): ((model: string) => boolean) | undefined {
  const builtIn = useCall('listKnownModels', {}, { staleMs: STALE_MS })
  const own = useCall('listPrices', { query: { source: 'admin', page_size: 500 } }, { staleMs: STALE_MS })
  if (!builtIn.data || !own.data) return undefined
  const names = new Set([...builtIn.data.map(({ id }) => id), ...own.data.items.map(({ model }) => model)])
  return model => names.has(model) || names.has(model.replace(DATED, ''))
}
