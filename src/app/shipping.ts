import type { Logger } from 'pino'
import { MAX_SKEW_S } from '../domain/clock-skew.ts'
import type { Network } from '../http/network.ts'
import { presentAuditRecord } from '../manage/server/audit.ts'
import { presentRow } from '../manage/usage/log-view.ts'
import type { Store } from '../store/engine/store.ts'
import { auditAfter } from '../store/records/audit.ts'
import { completeUsageId } from '../store/records/ship-cursors.ts'
import { readLogsBetween } from '../store/usage/logs.ts'
import { createBatchExport } from '../telemetry/batch-export.ts'
import { createFileDelivery } from '../telemetry/file-delivery.ts'
import { CONNECT_TIMEOUT_MS, createHttpDelivery } from '../telemetry/http-delivery.ts'
import { createLineBatch, JSON_LINES_TYPE } from '../telemetry/json-lines.ts'
import type { Config, ShipTarget } from './config.ts'
import { createFailureLog } from './failure-log.ts'
import type { Metrics } from './metrics.ts'
import { createOutageLog } from './outage-log.ts'
import { createStoreShipping, type ShippedRecord } from './store-shipping.ts'

const BATCH_ROWS = 500
const POST_TIMEOUT_MS = 30_000
const CLOSE_TIMEOUT_MS = 5_000
/** A row that stands for several rejected requests may be counted up for a minute. */
const COUNTING_S = 120

function deliveryTo(target: ShipTarget, { config: { shipHeaders: headers }, network }: ShippingDeps) {
  if ('file' in target) return createFileDelivery(target.file)
  // The operator may run the receiver anywhere.
  const connect = network.connector({ timeoutMs: CONNECT_TIMEOUT_MS, isUnchecked: true })
  const http = { url: target.url, headers, timeoutMs: POST_TIMEOUT_MS, isCompressed: false, connect }
  return createHttpDelivery(http, JSON_LINES_TYPE)
}

const receiverOf = (target: ShipTarget) => ('file' in target ? target.file : new URL(target.url).origin)

type ReadRecords = (
  store: Store,
  after: number,
  wait: (ms: number) => Promise<boolean>,
) => Promise<readonly ShippedRecord[]>

/** The next usage rows, as administrators get them from `/api/log/`. */
const readUsage: ReadRecords = async (store, after, wait) => {
  const upTo = await completeUsageId(store, after, wait)
  const rows = upTo === undefined ? [] : await readLogsBetween(store.db, { after, upTo, limit: BATCH_ROWS })
  const now = Date.now() / 1000
  // A row further ahead than clocks differ is final.
  const open = rows.findIndex(
    ({ request_id: requestId, created_time: time }) =>
      requestId === '' && time > now - COUNTING_S && time <= now + MAX_SKEW_S,
  )
  const complete = open < 0 ? rows : rows.slice(0, open)
  return complete.map(row => ({
    position: row.id,
    line: { ...presentRow(row), other: JSON.parse(row.other) as unknown },
  }))
}

const readAudit: ReadRecords = async ({ db }, after) => {
  const rows = await auditAfter(db, after, BATCH_ROWS)
  return rows.map(row => ({ position: row.seq, line: { id: row.seq, ...presentAuditRecord(row) } }))
}

type ShippingDeps = {
  readonly config: Config
  readonly network: Pick<Network, 'connector'>
  readonly log: Logger
  readonly store: Store
  readonly nodeId: string
  /** The first worker ships the records of the store. */
  readonly shipsStore: boolean
  readonly metrics: Pick<Metrics, 'onTelemetryDropped'>
}

/** Ships usage, audit records and request lines as JSON lines to a file or an HTTP endpoint (docs/reference/shipping.md: Streams). */
export function createShipping(deps: ShippingDeps) {
  const { config, log, store, nodeId, shipsStore, metrics } = deps
  const closers: (() => Promise<void>)[] = []
  const logFailure = createFailureLog(log, Date.now)

  function shipStream(stream: 'usage' | 'audit', target: ShipTarget | undefined): void {
    if (target === undefined || !shipsStore) return
    const delivery = deliveryTo(target, deps)
    const shipping = createStoreShipping({
      db: store.db,
      stream,
      nodeId,
      read: (after, wait) => (stream === 'usage' ? readUsage : readAudit)(store, after, wait),
      deliver: delivery.deliver,
      onOutcome: createOutageLog(log, { signal: stream, receiver: receiverOf(target) }),
      onFailure: error =>
        logFailure(error, `Records of the stream ${stream} could not be shipped. Retrying.`),
    })
    closers.push(async () => {
      const deadline = setTimeout(() => void delivery.close(), CLOSE_TIMEOUT_MS)
      await shipping.close()
      clearTimeout(deadline)
      await delivery.close()
    })
  }

  shipStream('usage', config.shipUsage)
  shipStream('audit', config.shipAudit)
  const { shipRequests } = config
  if (shipRequests === undefined) return { shipRequest: undefined, close: closeAll }
  const delivery = deliveryTo(shipRequests, deps)
  const requests = createBatchExport({
    batch: createLineBatch(),
    deliver: delivery.deliver,
    onOutcome: createOutageLog(log, { signal: 'requests', receiver: receiverOf(shipRequests) }),
    onDrop: (count, reason) => metrics.onTelemetryDropped('requests', reason, count),
    random: Math.random,
  })
  closers.push(async () => {
    await requests.close(CLOSE_TIMEOUT_MS)
    await delivery.close()
  })
  return { shipRequest: requests.add, close: closeAll }

  async function closeAll(): Promise<void> {
    await Promise.all(closers.map(close => close()))
  }
}
