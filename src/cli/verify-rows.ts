import { sql } from 'kysely'
import type { ChainKey } from '../domain/chain.ts'
import { listStates, mayBeMissing, readState } from '../store/engine/row-states.ts'
import type { Db } from '../store/engine/store.ts'

/** A row may change during the comparison. If it still differs after so many tries, it is a fault. */
const MAX_TRIES = 5

type Deps = {
  readonly db: Db
  readonly key: ChainKey
  /** The last state of every row in the audit log, by name. */
  readonly states: ReadonlyMap<string, string>
  /** Brings `states` up to the newest audit record. */
  refresh(): Promise<void>
}

/** Compares every row that decides about rights and money with its state in the audit log. */
export async function verifyRows({ db, key, states, refresh }: Deps) {
  const suspects = new Set<string>()
  const storedNames = new Set<string>()
  for await (const [name, digest] of listStates(db, key)) {
    storedNames.add(name)
    if (states.get(name) !== digest) suspects.add(name)
  }
  for (const [name, digest] of states)
    if (digest !== '' && !storedNames.has(name) && !mayBeMissing(name)) suspects.add(name)
  for (let attempt = 0; attempt < MAX_TRIES && suspects.size > 0; attempt++) {
    const now = new Map<string, string>()
    for (const name of suspects) now.set(name, (await readState(db, key, name))[1])
    await refresh()
    for (const [name, digest] of now)
      if (digest === (states.get(name) ?? '') || (digest === '' && mayBeMissing(name))) suspects.delete(name)
  }
  const faults: string[] = []
  for (const name of suspects) {
    const [, digest] = await readState(db, key, name)
    const expected = states.get(name) ?? ''
    faults.push(
      digest === ''
        ? `rows: ${name} was removed without an audit record`
        : expected === ''
          ? `rows: ${name} was added without an audit record`
          : `rows: ${name} differs from its last audit record`,
    )
  }
  return { rows: storedNames.size, faults }
}

type HeldRow = { kind: string; owner_id: number; held: number; leased: number }

/** One statement: a lease and its held amount change in the same transaction. */
export async function verifyHeld(db: Db): Promise<string[]> {
  const { rows } = await sql<HeldRow>`
    select accounts.kind, accounts.owner_id, accounts.held, coalesce(sums.leased, 0) as leased
    from accounts left join (
      select kind, owner_id, sum(amount) as leased from leases group by kind, owner_id
    ) sums on sums.kind = accounts.kind and sums.owner_id = accounts.owner_id
    where accounts.held <> coalesce(sums.leased, 0) order by accounts.kind, accounts.owner_id`.execute(db)
  const { rows: strays } = await sql<{ node_id: string; kind: string; owner_id: number }>`
    select node_id, kind, owner_id from leases
    where node_id not in (select id from nodes) or not exists (
      select 1 from accounts where accounts.kind = leases.kind and accounts.owner_id = leases.owner_id
    ) order by node_id, kind, owner_id`.execute(db)
  return [
    ...rows.map(
      ({ kind, owner_id, held: amount, leased }) =>
        `held: ${kind}:${owner_id} has ${amount} held, its leases add up to ${leased}`,
    ),
    ...strays.map(
      ({ node_id, kind, owner_id }) =>
        `held: a lease of ${node_id} on ${kind}:${owner_id} has no node or no account`,
    ),
  ]
}
