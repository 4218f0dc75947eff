import type { Logger } from 'pino'
import { monotonicMs } from '../routing/clock.ts'
import { createFleetRates, type FleetRates, type ShareNotice } from '../routing/fleet-rates.ts'
import { createRates } from '../routing/rates.ts'
import type { MachineShare } from '../routing/shares.ts'
import type { Listener } from '../store/engine/listener.ts'
import type { Db } from '../store/engine/store.ts'
import { readRateShares, replaceRateShares } from '../store/records/rate-shares.ts'
import { createFailureLog } from './failure-log.ts'
import { fleetClock } from './fleet.ts'

const SWEEP_EVERY_MS = 10_000

type MachineRatesDeps = {
  readonly db: Db
  readonly listener: Listener
  readonly machine: string
  readonly log: Logger
}

/** The rate limits of a machine that shares its database with others. Only the process that counts for the machine has them. */
export function openMachineRates({ db, listener, machine, log }: MachineRatesDeps): FleetRates {
  const logFailure = createFailureLog(log, Date.now)
  const onFailure = (error: Error) =>
    logFailure(error, 'Shares of rate limits could not be changed in the database. Retrying.', 'warn')
  const rates = createFleetRates({
    own: createRates({ nowMs: monotonicMs }),
    machine,
    store: {
      async read(subject) {
        const row = await readRateShares(db, subject)
        return { ...row, shares: JSON.parse(row.shares) as MachineShare[] }
      },
      replace: (subject, version, shares) =>
        replaceRateShares(db, subject, { version, shares: JSON.stringify(shares) }),
    },
    send: notice => listener.notify(JSON.stringify(notice)),
    nowMs: monotonicMs,
    wait: fleetClock.wait,
    onFailure,
  })
  listener.subscribe(message => {
    const notice = JSON.parse(message) as Partial<ShareNotice>
    if ('recall' in notice || 'returned' in notice) rates.receive(notice as ShareNotice)
  })
  const timer = setInterval(() => void rates.sweep().catch(onFailure), SWEEP_EVERY_MS)
  timer.unref()
  return {
    ...rates,
    async close(): Promise<void> {
      clearInterval(timer)
      await rates.close().catch(onFailure)
    },
  }
}
