import type { VideoRow } from '../../store/engine/schema.ts'
import { transact } from '../../store/engine/store.ts'
import { claimUpstream, isTwinSubmitting } from '../../store/records/videos.ts'
import type { VideoDeps } from './deps.ts'
import { openAccess, videoDialect } from './vendor.ts'
import { factsIn } from './video-view.ts'

type Lost = Pick<
  VideoRow,
  'id' | 'seq' | 'sent_model' | 'kind' | 'parameters' | 'created_time' | 'access_sealed' | 'upstream_id'
>

/** Searches the vendor's list of jobs for an unanswered submission, and assigns the match to it. Undefined: no match yet. */
export function createSearch({ db, engine, keyring, vendor }: VideoDeps) {
  return async function search(row: Lost): Promise<string | undefined> {
    // Another process found the job, and crashed before charging it.
    if (row.upstream_id) return row.upstream_id
    const access = openAccess(keyring, row.id, row.access_sealed)
    const dialect = access && videoDialect(access.provider, row.sent_model)
    if (!access || !dialect?.find) return undefined
    if (await isTwinSubmitting(db, row)) return undefined
    const sought = {
      ...factsIn(row),
      model: row.sent_model,
      kind: row.kind,
      reference: row.id,
      sentTime: row.created_time,
    }
    const answer = await vendor.ask(dialect.find.call(sought), access, row.sent_model)
    // A repetition may have been submitted while the vendor answered, and its job may be in the list: this is checked again.
    for (const id of dialect.find.ids(answer, sought)) {
      const isOurs = await transact(db, trx => claimUpstream(trx, engine, row, id))
      if (isOurs) return id
    }
    return undefined
  }
}

export type Search = ReturnType<typeof createSearch>
