import { useQueries } from '@tanstack/react-query'
import { callQuery, useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'

type Span = { readonly from?: number | undefined; readonly to?: number | undefined; readonly type?: number }

const queryOf = ({ from, to, type }: Span) => ({ start_timestamp: from, end_timestamp: to, type })

/** What a span cost, and how busy the last minute was: everybody's for administrators, one's own for others. */
export function useSpend(span: Span, everyMs?: number) {
  const isAdmin = useIsAdmin()
  const every = everyMs === undefined ? {} : { everyMs }
  const all = useCall('sumLogs', { query: queryOf(span) }, { enabled: isAdmin, ...every })
  const own = useCall('sumOwnLogs', { query: queryOf(span) }, { enabled: !isAdmin, ...every })
  return (isAdmin ? all : own).data
}

/** How many rows a span has. */
export function useCount(span: Span, everyMs?: number): number | undefined {
  const isAdmin = useIsAdmin()
  const query = { ...queryOf(span), page_size: 1 }
  const every = everyMs === undefined ? {} : { everyMs }
  const all = useCall('listLogs', { query }, { enabled: isAdmin, ...every })
  const own = useCall('listOwnLogs', { query }, { enabled: !isAdmin, ...every })
  return (isAdmin ? all : own).data?.total
}

export type Bucket = { readonly from: number; readonly to: number; readonly quota: number | undefined }

/**
 * A range cut into equal pieces, each summed by the gateway. A piece that is over never changes, so it is asked for
 * once. (One call for a whole series is what this becomes when the API has it.)
 */
export function useSpendSeries(seconds: number, pieces: number): readonly Bucket[] {
  const isAdmin = useIsAdmin()
  const size = Math.floor(seconds / pieces)
  const end = Math.floor(Date.now() / 1000 / size) * size + size
  const spans = Array.from({ length: pieces }, (_, index) => {
    const from = end - (pieces - index) * size
    return { from, to: from + size - 1 }
  })
  const isOver = ({ to }: { to: number }) => to < Date.now() / 1000 - 5
  return useQueries({
    queries: spans.map(span => ({
      ...(isAdmin
        ? callQuery('sumLogs', { query: queryOf(span) })
        : callQuery('sumOwnLogs', { query: queryOf(span) })),
      ...(isOver(span) ? { staleTime: Number.POSITIVE_INFINITY } : { refetchInterval: 15_000 }),
    })),
    combine: results => spans.map((span, index) => ({ ...span, quota: results[index]?.data?.quota })),
  })
}
