import type { RelayIncoming, RelayOutgoing } from '../http/relay-exchange.ts'
import { exposeMetrics, mergeMetrics } from '../metrics/exposition.ts'
import { createRegistry, MAX_SERIES, type MetricSnapshot } from '../metrics/registry.ts'
import type { RequestReport, TracedAttempt } from '../relay/request.ts'
import { SKIP_REASONS, type SkipReason } from '../routing/plan.ts'
import type { ChannelState } from './channel-monitor.ts'

const DURATION_S = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const FIRST_TOKEN_S = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60]
const OVERHEAD_S = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1]

/** The status if the client left before it got one; nginx uses the same number. */
export const CLIENT_LEFT = 499

export const statusOf = (response: RelayOutgoing) =>
  response.headersSent ? response.statusCode : CLIENT_LEFT

export const JOURNAL_LAG = 'sluice_journal_lag_seconds'

const usdOf = (nanos: number) => nanos / 1e9

/** The outcomes of attempts that the client left; every other attempt without a status got no response. */
const LEFT: Readonly<Record<string, string>> = { left: 'client_left', 'not sent': 'not_sent' }

/** The outcome of an attempt as a label. */
function outcomeOf({ status }: Pick<TracedAttempt, 'status'>): string {
  if (typeof status !== 'number') return LEFT[status] ?? 'no_response'
  return status < 400 ? 'ok' : String(status)
}

/** What metrics read from the gateway when they are collected. */
export type GatewayState = {
  eventLoopLagS(): number
  journalLagS(): number
  /** Nanodollars that running requests of this process hold. */
  heldNanos(): number
  /** Nanodollars that users have leased to this process. */
  leasedNanos(): number
  connections(): number
  /** Bytes of bodies in memory. */
  bodyBytes(): number
  /** Nanodollars of unresolved charges; undefined if another worker reports them. */
  readonly suspenseNanos: (() => Promise<number>) | undefined
  /** The state of every channel and of its keys; undefined if another worker reports them. */
  readonly channelStates: (() => Promise<readonly ChannelState[]>) | undefined
}

/** Concurrent calls share one result: several metrics read the same state. */
function shared<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | undefined
  return () => {
    reading ??= read().finally(() => {
      reading = undefined
    })
    return reading
  }
}

/** The metrics of this process (docs/reference/metrics.md: Requests). They are added up over all workers. */
export function createMetrics(
  others: (own: readonly MetricSnapshot[]) => Promise<readonly (readonly MetricSnapshot[])[]>,
) {
  const registry = createRegistry()
  let inFlight = 0
  const requests = registry.counter({
    name: 'sluice_requests_total',
    help: 'Requests of the relay API by operation, HTTP status and error code.',
    labels: ['operation', 'status', 'code'],
  })
  const attempts = registry.counter({
    name: 'sluice_attempts_total',
    help: 'Requests to providers by channel and outcome: ok, an HTTP status, no_response, client_left or not_sent.',
    labels: ['channel', 'outcome'],
  })
  /** The usual outcomes, whose series would otherwise be looked up by their labels for each request. */
  const successes = new Map<string, ReturnType<typeof requests>>()
  const usualAttempts = new Map<number, ReturnType<typeof attempts>>()

  function countRequest(operation: string, status: number, code: string): void {
    const isUsual = status === 200 && code === ''
    const cached = isUsual ? successes.get(operation) : undefined
    const series = cached ?? requests({ operation, status: String(status), code })
    if (isUsual && cached === undefined) successes.set(operation, series)
    series.add()
  }

  function countUsualAttempt(channelId: number): void {
    let series = usualAttempts.get(channelId)
    if (series === undefined) {
      if (usualAttempts.size >= MAX_SERIES) usualAttempts.clear()
      series = attempts({ channel: String(channelId), outcome: 'ok' })
      usualAttempts.set(channelId, series)
    }
    series.add()
  }

  const failovers = registry.counter({
    name: 'sluice_failovers_total',
    help: 'Requests that were answered after a failed attempt.',
  })({})
  const warnings = registry.counter({
    name: 'sluice_warnings_total',
    help: 'Requests that were sent to a provider with a warning: a part of them was removed or changed.',
  })({})
  const tokens = registry.counter({
    name: 'sluice_tokens_total',
    help: 'Tokens of settled requests. Cached input is part of the input, reasoning part of the output.',
    labels: ['kind'],
  })
  const ofKind = {
    input: tokens({ kind: 'input' }),
    output: tokens({ kind: 'output' }),
    cachedInput: tokens({ kind: 'cached_input' }),
    reasoning: tokens({ kind: 'reasoning' }),
  }
  const spend = registry.counter({
    name: 'sluice_spend_usd_total',
    help: 'USD charged to users.',
  })({})
  const duration = registry.histogram({
    name: 'sluice_request_duration_seconds',
    help: 'Time from the request to the end of its response.',
    buckets: DURATION_S,
  })({})
  const firstToken = registry.histogram({
    name: 'sluice_time_to_first_token_seconds',
    help: 'Time from the request to the first byte of a streamed answer.',
    buckets: FIRST_TOKEN_S,
  })({})
  const overhead = registry.histogram({
    name: 'sluice_overhead_seconds',
    help: 'Time that the gateway adds: the total minus the time of providers, or the time until a streamed request is sent.',
    buckets: OVERHEAD_S,
  })({})
  const limits = registry.counter({
    name: 'sluice_limits_reached_total',
    help: 'Requests that a limit of their token or user rejected, and channels that were skipped because of their own limits.',
    labels: ['subject'],
  })
  const [callerLimits, channelLimits] = [limits({ subject: 'caller' }), limits({ subject: 'channel' })]
  const management = registry.counter({
    name: 'sluice_management_requests_total',
    help: 'Requests of the management API by HTTP status and error code.',
    labels: ['status', 'code'],
  })
  const dropped = registry.counter({
    name: 'sluice_telemetry_dropped_total',
    help: 'Spans, metric reports and log lines that could not be delivered, by signal and reason.',
    labels: ['signal', 'reason'],
  })
  const bodiesDropped = registry.counter({
    name: 'sluice_bodies_dropped_total',
    help: 'Bodies that were to be kept and were not: the queue or the memory was full, or the store was unavailable.',
  })({})
  registry.gauge({ name: 'sluice_in_flight_requests', help: 'Running requests of the relay API.' }, () => [
    { labels: {}, value: inFlight },
  ])

  function countSkipped(passedOver: readonly SkipReason[]): void {
    const full = passedOver.filter(({ reason }) => reason === SKIP_REASONS.full).length
    if (full > 0) channelLimits.add(full)
  }

  function countSettled({ settled, work }: Pick<RequestReport, 'settled' | 'work'>): void {
    if (!settled) return
    const { channelId, paid, log } = settled
    const {
      trace,
      frt,
      cache_tokens,
      reasoning_tokens,
      warnings: warned,
    } = log.other as {
      readonly trace?: {
        readonly attempts: readonly TracedAttempt[]
        readonly passed_over?: readonly SkipReason[]
      }
      readonly frt?: number
      readonly cache_tokens?: number
      readonly reasoning_tokens?: number
      readonly warnings?: readonly string[]
    }
    if (trace) {
      for (const attempt of trace.attempts)
        attempts({ channel: String(attempt.channel), outcome: outcomeOf(attempt) }).add()
      const last = trace.attempts.at(-1)
      if (trace.attempts.length > 1 && last && outcomeOf(last) === 'ok') failovers.add()
      if (trace.passed_over) countSkipped(trace.passed_over)
    } else countUsualAttempt(channelId)
    ofKind.input.add(log.promptTokens)
    ofKind.output.add(log.completionTokens)
    if (cache_tokens !== undefined) ofKind.cachedInput.add(cache_tokens)
    if (reasoning_tokens !== undefined) ofKind.reasoning.add(reasoning_tokens)
    spend.add(usdOf(paid))
    if (warned) warnings.add()
    if (work?.isStream && frt !== undefined) firstToken.observe(frt / 1000)
  }

  return {
    inFlight: () => inFlight,
    onRequestStart(): void {
      inFlight += 1
    },
    onRequestEnd(report: RequestReport, _request: RelayIncoming, response: RelayOutgoing): void {
      inFlight -= 1
      const { operation, settled, code, startedAt, upstream } = report
      const status = statusOf(response)
      const errorCode = code ?? settled?.log.other.error_code ?? ''
      countRequest(operation, status, String(errorCode))
      const totalMs = performance.now() - startedAt
      duration.observe(totalMs / 1000)
      countSettled(report)
      if (code === 'rate_limit_exceeded') callerLimits.add()
      if (report.passedOver) countSkipped(report.passedOver)
      const { gatewayMs, ms, isStreamed } = upstream
      if (gatewayMs === undefined) return
      overhead.observe(Math.max(0, isStreamed ? gatewayMs : totalMs - ms) / 1000)
    },

    /** Counts a request that is settled after its response: a video job that the gateway had to search for. */
    onLateSettlement: countSettled,

    /** Counts an unresolved charge that a user pays after all. */
    onLateCharge(nanos: number): void {
      spend.add(usdOf(nanos))
    },

    onManagementRequest(status: number, code: string): void {
      management({ status: String(status), code }).add()
    },

    /** Counts telemetry that could not be delivered. */
    onTelemetryDropped(signal: string, reason: string, count: number): void {
      dropped({ signal, reason }).add(count)
    },

    onBodiesDropped: (count: number): void => bodiesDropped.add(count),

    /** Adds the figures that are read from the gateway. */
    watch(state: GatewayState): void {
      const gauge = (name: string, help: string, read: () => number | Promise<number>) =>
        registry.gauge({ name, help }, async () => [{ labels: {}, value: await read() }])
      gauge(
        'sluice_event_loop_lag_seconds',
        'Mean delay of the event loop in the last half second, summed over workers.',
        state.eventLoopLagS,
      )
      gauge(
        JOURNAL_LAG,
        'Age of the oldest settled request that is not yet written to the store, summed over workers.',
        state.journalLagS,
      )
      gauge('sluice_held_usd', 'USD that running requests hold.', () => usdOf(state.heldNanos()))
      gauge(
        'sluice_leased_usd',
        'USD that users have leased to workers: held, or free for the next requests.',
        () => usdOf(state.leasedNanos()),
      )
      gauge('sluice_connections', 'Open connections of clients.', state.connections)
      registry.gauge({ name: 'sluice_memory_bytes', help: 'Memory by part.', labels: ['part'] }, () => {
        const { rss, heapUsed, external } = process.memoryUsage()
        const parts = { rss, heap: heapUsed, external, bodies: state.bodyBytes() }
        return Object.entries(parts).map(([part, value]) => ({ labels: { part }, value }))
      })
      const { suspenseNanos, channelStates } = state
      if (suspenseNanos)
        gauge('sluice_suspense_usd', 'USD of unresolved charges.', async () => usdOf(await suspenseNanos()))
      if (!channelStates) return
      const channels = shared(channelStates)
      registry.gauge(
        {
          name: 'sluice_channel_state',
          help: '1 for the state of each channel: enabled, disabled, auto_disabled or cooling_down.',
          labels: ['channel', 'state'],
        },
        async () =>
          (await channels()).map(({ id, state: is }) => ({
            labels: { channel: String(id), state: is },
            value: 1,
          })),
      )
      registry.gauge(
        {
          name: 'sluice_channel_keys',
          help: 'Keys of each channel by state: enabled, disabled, auto_disabled or cooling_down.',
          labels: ['channel', 'state'],
        },
        async () =>
          (await channels()).flatMap(({ id, keys }) =>
            Object.entries(keys).map(([is, value]) => ({
              labels: { channel: String(id), state: is },
              value,
            })),
          ),
      )
    },

    /** The metrics of this process, for another worker. */
    collect: registry.collect,

    /** The metrics of all workers in the text format of Prometheus. */
    async expose(): Promise<string> {
      const own = await registry.collect()
      return exposeMetrics(mergeMetrics([own, ...(await others(own))]))
    },
  }
}

export type Metrics = ReturnType<typeof createMetrics>
