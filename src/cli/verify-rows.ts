import { sql } from 'kysely'
import type { ChainKey } from '../domain/chain.ts'
import { listStates, mayBeMissing, readState } from '../store/engine/row-states.ts'
import type { Db } from '../store/engine/store.ts'

/** A row may change during the comparison; after this many checks the difference has another reason. */
const LOOKS = 5

type Deps = {
  readonly db: Db
  readonly key: ChainKey
  /** The last state in the audit log of every row, by name. */
  readonly states: ReadonlyMap<string, string>
  /** Updates `states` to the newest audit record. */
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
  for (let look = 0; look < LOOKS && suspects.size > 0; look++) {
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
        ? `rows: ${name} was removed, and no audit record says so`
        : expected === ''
          ? `rows: ${name} is there, and no audit record says so`
          : `rows: ${name} is not as its last audit record left it`,
    )
  }
  return { rows: storedNames.size, faults }
}

type Held = { kind: string; owner_id: number; held: number; leased: number }

/** In one statement, because the same transaction changes a lease and the held amount. */
export async function verifyHeld(db: Db): Promise<string[]> {
  const { rows } = await sql<Held>`
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
      row => `held: ${row.kind}:${row.owner_id} has ${row.held} held, its leases sum up to ${row.leased}`,
    ),
    ...strays.map(
      ({ node_id, kind, owner_id }) =>
        `held: a lease of ${node_id} on ${kind}:${owner_id} belongs to no node or account`,
    ),
  ]
}
