import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import type { Store } from '../../src/store/engine/store.ts'
import { childrenOf, isAlive, lookInto, type Server, type ServerOptions, until } from './process.ts'
import type { RandomRequests } from './random-requests.ts'
import type { Draw } from './random-writes.ts'
import { type Accounts, breaches, readAccounts } from './relay-laws.ts'
import { WAIT_MS } from './wait.ts'

export type Way = 'worker' | 'supervisor' | 'all'

/** Kills the processes that `way` names. Returns whether the gateway has to be started again. */
export async function killBy(way: Way, server: Server, draw: Draw, count: number): Promise<boolean> {
  const workers = childrenOf(server.pid)
  if (way === 'worker') {
    const one = draw.pick(workers)
    process.kill(one, 'SIGKILL')
    await until('the killed worker to be replaced', () => {
      const now = childrenOf(server.pid)
      return now.length === count && !now.includes(one) ? true : undefined
    })
    return false
  }
  if (way === 'all')
    try {
      for (const pid of workers) process.kill(pid, 'SIGKILL')
    } catch (error) {
      // The gateway tells in its log why a worker has ended by itself.
      throw new Error(
        server
          .lines()
          .slice(-20)
          .map(line => JSON.stringify(line))
          .join('\n'),
        { cause: error },
      )
    }
  await server.kill()
  await until('the workers to end', () => (workers.some(isAlive) ? undefined : true))
  return true
}

/** A balance is reported as exact only if every worker has brought the store up to date. */
export const untilAllAnswer = (server: Server, tokenId: number) =>
  until('every worker to answer', async () => {
    const { status, headers } = await server.api('GET', `/api/token/${tokenId}`)
    return status === 200 && !headers.has('x-sluice-stale') ? true : undefined
  })

/** Reads the ledger on a separate connection, and checks it. */
export function createJudge(
  ground: ServerOptions,
  { told: outcomes }: Pick<RandomRequests, 'told'>,
  countFile: string,
  settledMs = WAIT_MS,
) {
  const readFrom = (store: Store) => readAccounts(store, outcomes, countFile)
  const read = () => lookInto(ground, readFrom)
  return {
    read,
    /** Waits for work in progress, such as a provider's last line; then every invariant holds. */
    judge: (at: string): Promise<Accounts> =>
      lookInto(ground, async store => {
        const deadline = Date.now() + settledMs
        for (;;) {
          const accounts = await readFrom(store)
          const broken = breaches(accounts)
          if (broken.length === 0) return accounts
          if (Date.now() > deadline) assert.deepEqual(broken.slice(0, 20), [], at)
          await delay(100)
        }
      }),
  }
}
