import type { Actor } from '../../domain/actor.ts'
import {
  type CanaryKind,
  type CanarySplit,
  MAX_OPEN_CANARIES,
  MAX_SHADOW_PRICES,
  SHARE_STEPS,
} from '../../domain/canary.ts'
import { invalidField, notFound, Refusal } from '../../domain/errors.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { sealCanaryChanges } from '../../identity/canary-changes.ts'
import { SealError } from '../../identity/keyring.ts'
import { lockAuditChain } from '../../store/books/chains.ts'
import { nonEmptyIds } from '../../store/engine/page.ts'
import type { CanaryRow } from '../../store/engine/schema.ts'
import { type Db, isUniqueViolation, type Trx } from '../../store/engine/store.ts'
import {
  type CanaryChange,
  findCanary,
  insertCanary,
  listOpenCanaries,
  updateCanary,
} from '../../store/records/canaries.ts'
import type { ConfigDeps } from '../config/handlers.ts'
import type { Changing } from '../server/call.ts'
import { type CanarySubject, createCanaryChanges, type PreparedChange, presentChanges } from './changes.ts'
import { compareSides, shadowOf } from './comparison.ts'

/** Tenths of a percent in one percent. */
const STEPS_OF_PERCENT = SHARE_STEPS / 100
const GRACE_S = 60

/** Who takes part in a canary. */
type Participation = {
  readonly share?: number | undefined
  readonly split_by?: CanarySplit | undefined
  readonly token_ids?: readonly number[] | null | undefined
}

export type CanaryInput = Participation & {
  readonly kind: CanaryKind
  readonly channel_id?: number | undefined
  readonly alias_id?: number | undefined
  readonly model?: string | undefined
  readonly changes: JsonObject
  readonly from?: number | undefined
  readonly until?: number | null | undefined
  readonly note?: string | undefined
}

export type CanaryUpdate = Participation & {
  readonly until?: number | null | undefined
  readonly note?: string | undefined
}

const SUBJECT_FIELDS = { channel: 'channel_id', alias: 'alias_id', price: 'model' } as const
const OF_ROUTES = ['share', 'split_by', 'token_ids'] as const
const OF_PRICES = ['from', 'until'] as const

function subjectOf(input: CanaryInput): CanarySubject {
  const field = SUBJECT_FIELDS[input.kind]
  const subject = input[field]
  if (subject === undefined) throw invalidField(field, `is required for a canary of kind ${input.kind}`)
  return { kind: input.kind, subject: String(subject) }
}

/** Fields of the other kind have no effect, so they are refused. */
function mustFitKind(kind: CanaryKind, input: Participation & { from?: unknown; until?: unknown }): void {
  const others = kind === 'price' ? OF_ROUTES : OF_PRICES
  const other = others.find(name => input[name] != null)
  if (other === undefined) return
  const what = kind === 'price' ? 'every request of the model is priced' : 'only shadow prices have it'
  throw invalidField(other, `must not be sent for a canary of kind ${kind}: ${what}`)
}

const isOpen = ({ ended_time }: CanaryRow) => ended_time === null

function mustBeOpen(row: CanaryRow): void {
  if (!isOpen(row)) throw new Refusal('conflict', `The canary was ${row.state}. Start a new one.`)
}

async function readTokens(trx: Trx, ids: readonly number[] | null | undefined): Promise<string | null> {
  if (ids == null) return null
  const unique = [...new Set(ids)]
  const rows = await trx.selectFrom('tokens').select('id').where('id', 'in', nonEmptyIds(unique)).execute()
  const missing = unique.find(id => !rows.some(row => row.id === id))
  if (missing !== undefined) throw invalidField('token_ids', `contains ${missing}, which is not a token`)
  return JSON.stringify(unique)
}

type Ending = { readonly actor: Actor; readonly reason?: string | undefined }
type Promotion = Ending & {
  readonly force?: boolean | undefined
  readonly effectiveTime?: number | undefined
}

/** Starts, changes and ends canaries (docs/reference/canary.md: States). */
export function createCanaryBook(deps: ConfigDeps) {
  const { db, keyring, now } = deps
  const canaryChanges = createCanaryChanges(deps)

  async function present(source: Db, row: CanaryRow) {
    const id = row.kind === 'price' ? null : Number(row.subject)
    const changes = openOrNone(row)
    return {
      id: row.id,
      kind: row.kind,
      channel_id: row.kind === 'channel' ? id : null,
      alias_id: row.kind === 'alias' ? id : null,
      model: row.kind === 'price' ? row.subject : null,
      name: row.name,
      state: row.state,
      share: row.share / STEPS_OF_PERCENT,
      split_by: row.split_by,
      token_ids: row.token_ids === null ? null : (JSON.parse(row.token_ids) as number[]),
      round: row.round,
      round_time: row.round_time,
      from: row.from_time,
      until: row.until_time,
      note: row.note,
      fields: changes ? presentChanges(row.kind, changes) : [],
      drift: changes && isOpen(row) ? await canaryChanges.drift(source, row, changes) : [],
      author: { id: row.author_id, username: row.author_name },
      created_time: row.created_time,
      ended_time: row.ended_time,
      end_note: row.end_note,
    }
  }

  /** A change that cannot be decrypted is shown as empty; the relay does not apply it. */
  function openOrNone(row: CanaryRow) {
    try {
      return canaryChanges.open(row)
    } catch (error) {
      if (error instanceof SealError) return undefined
      throw error
    }
  }

  async function mustFind(source: Db, id: number): Promise<CanaryRow> {
    const row = await findCanary(source, id)
    if (!row) throw notFound('canary')
    return row
  }

  async function mustFindOpen(trx: Trx, id: number): Promise<CanaryRow> {
    // Concurrent starts could exceed a limit.
    await lockAuditChain(trx)
    const row = await mustFind(trx, id)
    mustBeOpen(row)
    return row
  }

  async function mustHaveRoom(trx: Trx, { kind, subject }: CanarySubject): Promise<void> {
    const [same] = await listOpenCanaries(trx, kind, [subject])
    if (same)
      throw new Refusal(
        'conflict',
        `Canary ${same.id} already tries a change of this ${kind}. Promote or drop it first.`,
      )
    const isPrice = kind === 'price'
    const open = isPrice
      ? await listOpenCanaries(trx, 'price')
      : [...(await listOpenCanaries(trx, 'channel')), ...(await listOpenCanaries(trx, 'alias'))]
    const most = isPrice ? MAX_SHADOW_PRICES : MAX_OPEN_CANARIES
    if (open.length >= most)
      throw new Refusal(
        'conflict',
        `At most ${most} ${isPrice ? 'shadow prices' : 'canaries of channels and aliases'} may be open. End one first.`,
      )
  }

  /** Writes a change of a canary with its audit record, and returns the new state. */
  async function change({ trx, audit }: Changing, action: string, row: CanaryRow, fields: CanaryChange) {
    const before = await present(trx, row)
    await updateCanary(trx, row.id, fields)
    const after = await present(trx, await mustFind(trx, row.id))
    audit({ action: `canary.${action}`, target: `canary:${row.id}`, before, after })
    return after
  }

  function readTimes(input: CanaryInput): { from_time: number; until_time: number | null } {
    const time = now()
    const from = input.from || time
    if (from < time - GRACE_S) throw invalidField('from', 'must not be in the past')
    const until = input.until ?? null
    if (until !== null && until <= from) throw invalidField('until', 'must be after from')
    return { from_time: from, until_time: until }
  }

  return {
    present,
    mustFind,

    /** Validates the change of a new canary. Call it before the transaction of `insert`. */
    async prepare(input: CanaryInput, actor: Actor): Promise<PreparedChange> {
      mustFitKind(input.kind, input)
      readTimes(input)
      return canaryChanges.prepare(subjectOf(input), input.changes, actor)
    },

    async insert({ trx, audit }: Changing, input: CanaryInput, prepared: PreparedChange, actor: Actor) {
      const subject = subjectOf(input)
      await lockAuditChain(trx)
      await mustHaveRoom(trx, subject)
      const time = now()
      const id = await insertCanary(trx, {
        ...subject,
        ...readTimes(input),
        name: prepared.name,
        changes_sealed: '',
        state: 'running',
        round: 1,
        share: Math.round((input.share ?? 100) * STEPS_OF_PERCENT),
        split_by: input.split_by ?? 'request',
        token_ids: await readTokens(trx, input.token_ids),
        note: input.note ?? '',
        author_id: actor.id,
        author_name: actor.username,
        created_time: time,
        round_time: time,
        ended_time: null,
        end_note: '',
      }).catch(error => {
        if (isUniqueViolation(error)) throw new Refusal('conflict', 'Another canary was started first.')
        throw error
      })
      // The encryption is bound to the row id, so the row is inserted first.
      await updateCanary(trx, id, { changes_sealed: sealCanaryChanges(keyring, id, prepared.changes) })
      const view = await present(trx, await mustFind(trx, id))
      audit({ action: 'canary.start', target: `canary:${id}`, after: view })
      return view
    },

    async update(changing: Changing, id: number, input: CanaryUpdate) {
      const row = await mustFindOpen(changing.trx, id)
      mustFitKind(row.kind, { ...input, ...(row.kind === 'price' && { until: undefined }) })
      const fields: CanaryChange = {}
      if (input.note !== undefined) fields.note = input.note
      if (input.until !== undefined && row.kind === 'price') {
        if (input.until !== null && input.until <= row.from_time)
          throw invalidField('until', 'must be after from')
        fields.until_time = input.until
      }
      const participation = {
        share: input.share === undefined ? row.share : Math.round(input.share * STEPS_OF_PERCENT),
        split_by: input.split_by ?? row.split_by,
        token_ids:
          input.token_ids === undefined ? row.token_ids : await readTokens(changing.trx, input.token_ids),
      }
      const isSame = OF_ROUTES.every(name => participation[name] === row[name])
      if (!isSame) Object.assign(fields, participation, { round: row.round + 1, round_time: now() })
      return Object.keys(fields).length === 0
        ? present(changing.trx, row)
        : change(changing, 'update', row, fields)
    },

    async setState(changing: Changing, id: number, state: 'running' | 'paused') {
      const row = await mustFindOpen(changing.trx, id)
      if (row.state === state) return present(changing.trx, row)
      return change(changing, state === 'paused' ? 'pause' : 'resume', row, { state })
    },

    async promote(changing: Changing, id: number, { actor, reason, force, effectiveTime }: Promotion) {
      const row = await mustFindOpen(changing.trx, id)
      const drift = await canaryChanges.drift(changing.trx, row, canaryChanges.open(row))
      if (drift.length > 0 && force !== true)
        throw new Refusal(
          'conflict',
          `Since the start of the canary, ${drift.join(', ')} of the ${row.kind} was changed otherwise. Send "force": true to overwrite that.`,
        )
      await canaryChanges.promote(changing, { row, actor, effectiveTime })
      return change(changing, 'promote', row, {
        state: 'promoted',
        ended_time: now(),
        end_note: reason ?? '',
      })
    },

    async drop(changing: Changing, id: number, { reason }: Omit<Ending, 'actor'>) {
      const row = await mustFindOpen(changing.trx, id)
      return change(changing, 'drop', row, { state: 'dropped', ended_time: now(), end_note: reason ?? '' })
    },

    /** One canary with its results; without `round`, those of the present round. */
    async whole(id: number, round?: number) {
      const row = await mustFind(db, id)
      const isPrice = row.kind === 'price'
      return {
        ...(await present(db, row)),
        comparison: isPrice ? null : await compareSides(db, row, round ?? row.round),
        shadow: isPrice ? await shadowOf(db, row) : null,
      }
    },
  }
}

export const promotionReason = (id: number, reason: string | undefined) =>
  reason ? `Promote canary ${id}: ${reason}` : `Promote canary ${id}`
