import {
  keepPreviousData,
  QueryClient,
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import i18next from 'i18next'
import { momentToSecond } from '../look/format.ts'
import { toast } from '../look/toast.tsx'
import { type CallOptions, call, type Input } from './client.ts'
import type { AnswerOf, RouteName } from './contract.ts'
import { ApiError, OFFLINE } from './errors.ts'

const LIST_STALE_MS = 10_000
const MAX_RETRIES = 2

/** Retries only transient failures: no response, 502 and 503. */
const isTransient = (error: Error) =>
  error instanceof ApiError && (error.code === OFFLINE || error.status === 502 || error.status === 503)

export const createQueryClient = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: LIST_STALE_MS,
        retry: (count, error) => count < MAX_RETRIES && isTransient(error),
      },
    },
  })

export const callQuery = <Name extends RouteName>(
  name: Name,
  input: Input<Name>,
  options: Omit<CallOptions, 'signal'> = {},
) =>
  queryOptions({
    queryKey: [name, input],
    queryFn: ({ signal }) => call(name, input, { ...options, signal }),
  })

type Interval = number | false
type Reading<Name extends RouteName> = {
  readonly enabled?: boolean
  readonly staleMs?: number
  /** Polling interval while the page is visible. It may depend on the last response. */
  readonly refetchMs?: Interval | ((last: AnswerOf<Name>) => Interval)
}

const intervalOf = <Name extends RouteName>(refetchMs: NonNullable<Reading<Name>['refetchMs']>) =>
  typeof refetchMs === 'function'
    ? ({ state }: { readonly state: { readonly data: AnswerOf<Name> | undefined } }): Interval =>
        state.data === undefined ? false : refetchMs(state.data)
    : refetchMs

/** Reads a route. The previous data stays visible until new data arrives. */
export const useCall = <Name extends RouteName>(
  name: Name,
  input: Input<Name>,
  reading: Reading<Name> = {},
) =>
  useQuery({
    ...callQuery(name, input),
    placeholderData: keepPreviousData,
    ...(reading.enabled === undefined ? {} : { enabled: reading.enabled }),
    ...(reading.staleMs === undefined ? {} : { staleTime: reading.staleMs }),
    ...(reading.refetchMs === undefined ? {} : { refetchInterval: intervalOf(reading.refetchMs) }),
  })

type Unconfirmed = {
  readonly nodes: {
    readonly confirmed: number
    readonly waiting: readonly { readonly id: string; readonly until: number }[]
  }
}

const isUnconfirmed = (answer: unknown): answer is Unconfirmed =>
  typeof answer === 'object' &&
  answer !== null &&
  'nodes' in answer &&
  typeof answer.nodes === 'object' &&
  answer.nodes !== null &&
  'waiting' in answer.nodes

/** The change is made, but not yet in effect on nodes that do not respond. */
function reportUnconfirmed(answer: unknown): void {
  if (!isUnconfirmed(answer)) return
  const { confirmed, waiting } = answer.nodes
  const until = Math.max(...waiting.map(node => node.until))
  toast(
    i18next.t('nodes.unconfirmed', {
      confirmed,
      nodes: waiting.map(({ id }) => id).join(', '),
      time: momentToSecond(until),
    }),
  )
}

/**
 * Writes through a route, then refetches all data of the page. The gateway responds after the change took
 * effect.
 */
export function useRouteMutation<Name extends RouteName>(
  name: Name,
  optionsOf: (input: Input<Name>) => CallOptions = () => ({}),
) {
  const client = useQueryClient()
  return useMutation<AnswerOf<Name>, Error, Input<Name>>({
    mutationFn: input => call(name, input, optionsOf(input)),
    onSuccess: answer => {
      reportUnconfirmed(answer)
      return client.invalidateQueries()
    },
  })
}
