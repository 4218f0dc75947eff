import { isDeepStrictEqual } from 'node:util'
import type { Actor } from '../../domain/actor.ts'
import { ALIAS_CANARY_FIELDS, type CanaryKind, CHANNEL_CANARY_FIELDS } from '../../domain/canary.ts'
import type { ChangedField } from '../../domain/config-change.ts'
import { invalidField, notFound, Refusal } from '../../domain/errors.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { type Price, presentedPrice, priceFields } from '../../domain/price.ts'
import { maskSecrets } from '../../domain/secret-name.ts'
import {
  mayApply,
  movedSecrets,
  openCanaryChanges,
  type StoredCanaryChanges,
} from '../../identity/canary-changes.ts'
import { shippedPrice } from '../../providers/prices/shipped.ts'
import type { CanaryRow, ChannelRow } from '../../store/engine/schema.ts'
import { type Db, transact } from '../../store/engine/store.ts'
import { findAlias } from '../../store/records/aliases.ts'
import { listSealedKeys } from '../../store/records/channel-keys.ts'
import { findPriceInForce } from '../../store/records/prices.ts'
import { createChannelRows } from '../channels/channel-rows.ts'
import { type ConfigCall, type ConfigDeps, createConfigCall } from '../config/handlers.ts'
import { differences } from '../config/history.ts'
import type { Changing } from '../server/call.ts'

type Columns = StoredCanaryChanges['before']

/** The channel, alias or price that a canary changes. */
export type CanarySubject = {
  readonly kind: CanaryKind
  /** The id of the channel or alias, or the model. */
  readonly subject: string
}

export type PreparedChange = {
  /** The present name of the channel or alias, or the model. */
  readonly name: string
  readonly changes: StoredCanaryChanges
}

const JSON_COLUMNS: ReadonlySet<string> = new Set([
  'models',
  'model_mapping',
  'param_override',
  'header_override',
  'status_code_mapping',
  'setting',
  'channel_ids',
])
const WITH_SECRETS: ReadonlySet<string> = new Set(['header_override', 'setting'])

/** The price fields are those of the whole price. */
const FIELDS: Readonly<Record<CanaryKind, readonly string[] | undefined>> = {
  channel: CHANNEL_CANARY_FIELDS,
  alias: ALIAS_CANARY_FIELDS,
  price: undefined,
}
const NOT_OF_PRICE: readonly string[] = ['model', 'effective_time']

const fieldValue = (name: string, value: string | number | null): unknown =>
  JSON_COLUMNS.has(name) && typeof value === 'string' ? JSON.parse(value) : value

/** Columns as the API names and shows them. */
function fieldsOf(columns: Columns): Record<string, unknown> {
  return Object.fromEntries(Object.entries(columns).map(([name, value]) => [name, fieldValue(name, value)]))
}

const pricesOf = (columns: Columns): JsonObject =>
  columns.price ? (presentedPrice(JSON.parse(String(columns.price)) as Price) as JsonObject) : {}

const masked = (columns: Columns): JsonObject =>
  Object.fromEntries(
    Object.entries(fieldsOf(columns)).map(([name, value]) => [
      name,
      WITH_SECRETS.has(name) ? maskSecrets(value as Record<string, unknown>) : value,
    ]),
  )

/** The change as the API shows it. Secrets that look the same when masked still differ. */
export function presentChanges(kind: CanaryKind, { before, after }: StoredCanaryChanges): ChangedField[] {
  if (kind === 'price') return differences(pricesOf(before), pricesOf(after))
  const [masks, maskedAfter] = [masked(before), masked(after)]
  return Object.keys(after).map(path => ({ path, before: masks[path], after: maskedAfter[path] }))
}

/** Ends a transaction whose changes are only looked at. */
class PreviewEnd extends Error {
  readonly result: PreparedChange
  constructor(result: PreparedChange) {
    super('preview')
    this.result = result
  }
}

/** The errors of another route, with the paths of this one. */
function atChanges(error: unknown): never {
  if (!(error instanceof Refusal) || !error.errors) throw error
  const errors = error.errors.map(({ path, message }) => ({ path: `changes.${path}`, message }))
  const [first] = errors
  throw new Refusal(error.code, first ? `${first.path} ${first.message}` : error.message, { errors })
}

function mustBeAllowed(kind: CanaryKind, input: JsonObject): void {
  const allowed = FIELDS[kind]
  const refused = Object.keys(input).find(name =>
    allowed ? !allowed.includes(name) : NOT_OF_PRICE.includes(name),
  )
  if (refused === undefined) return
  const path = `changes.${refused.slice(0, 100)}`
  if (!allowed) throw invalidField(path, 'must not be changed by a canary')
  throw invalidField(path, `must not be changed by a canary; it may change ${allowed.join(', ')}`)
}

/**
 * The changes of canaries. A change is validated by making it, with the handler of its route, in a transaction that is rolled
 * back. It follows the same rules as the ordinary change into which it is promoted.
 */
export function createCanaryChanges(deps: ConfigDeps) {
  const { keyring, now } = deps
  const channelRows = createChannelRows(deps)

  const callIn = (changing: Changing, actor: Actor): ConfigCall =>
    createConfigCall(deps, { changing, actor, passwords: deps.passwords })

  /** The present columns of a subject, with decrypted headers; undefined if it does not exist. */
  async function stateOf(
    db: Db,
    { kind, subject }: CanarySubject,
  ): Promise<{ name: string; columns: Columns } | undefined> {
    if (kind === 'price') {
      const row = await findPriceInForce(db, subject, now())
      const shipped = row ? undefined : shippedPrice(subject, now() * 1000)
      return { name: subject, columns: { price: row?.price ?? (shipped ? JSON.stringify(shipped) : '') } }
    }
    const id = Number(subject)
    const row = kind === 'alias' ? await findAlias(db, id) : (await channelRows.find(db, [id]))[0]
    if (!row) return undefined
    const names = FIELDS[kind] ?? []
    const columns = Object.fromEntries(names.map(name => [name, row[name as keyof typeof row]])) as Columns
    return { name: row.name, columns }
  }

  async function mustFind(db: Db, subject: CanarySubject) {
    const state = await stateOf(db, subject)
    if (!state) throw notFound(subject.kind)
    return state
  }

  const withKeyDigests = async (db: Db, row: ChannelRow) => ({
    ...row,
    keyDigests: (await listSealedKeys(db, row.id)).map(({ digest }) => digest),
  })

  /** The digest of the channel's secrets, if the change sends them elsewhere. */
  async function secretsOf(db: Db, { kind, subject }: CanarySubject, before: Columns, after: Columns) {
    if (kind !== 'channel') return {}
    const row = await channelRows.mustFind(db, Number(subject))
    return movedSecrets(await withKeyDigests(db, { ...row, ...before }), after)
  }

  /** Makes the change as its route does. */
  async function make(call: ConfigCall, { kind, subject }: CanarySubject, input: JsonObject): Promise<void> {
    if (kind === 'price') await call('createPrice', { body: { ...input, model: subject } })
    else
      await call(kind === 'channel' ? 'updateChannel' : 'updateAlias', {
        body: { ...input, id: Number(subject) },
      })
  }

  return {
    /** Validates a change, and returns the columns that it would change. */
    async prepare(subject: CanarySubject, input: JsonObject, actor: Actor): Promise<PreparedChange> {
      mustBeAllowed(subject.kind, input)
      try {
        await transact(deps.db, async trx => {
          const before = await mustFind(trx, subject)
          await make(callIn({ trx, audit: () => {} }, actor), subject, input).catch(atChanges)
          const { columns } = await mustFind(trx, subject)
          const names = Object.keys(columns).filter(name => columns[name] !== before.columns[name])
          const pick = (of: Columns) => Object.fromEntries(names.map(name => [name, of[name] ?? null]))
          if (names.length === 0) throw invalidField('changes', 'must change something')
          const [was, becomes] = [pick(before.columns), pick(columns)]
          throw new PreviewEnd({
            name: before.name,
            changes: { before: was, after: becomes, ...(await secretsOf(trx, subject, was, becomes)) },
          })
        })
      } catch (error) {
        if (error instanceof PreviewEnd) return error.result
        throw error
      }
      throw new Error('a preview did not end')
    },

    open: (row: CanaryRow) => openCanaryChanges(keyring, row),

    /** The fields of the change that were changed otherwise since the start. */
    async drift(db: Db, row: CanaryRow, changes: StoredCanaryChanges): Promise<string[]> {
      const state = await stateOf(db, row)
      if (!state) return []
      const isSame = (name: string) =>
        isDeepStrictEqual(
          fieldValue(name, state.columns[name] ?? null),
          fieldValue(name, changes.before[name] ?? null),
        )
      const fields = Object.keys(changes.before).filter(name => !isSame(name))
      if (row.kind !== 'channel') return fields
      const [channel] = await channelRows.find(db, [Number(row.subject)])
      if (!channel) return []
      return mayApply(await withKeyDigests(db, channel), changes) ? fields : [...fields, 'secrets']
    },

    /** Makes the change of a canary for all requests. */
    async promote(
      changing: Changing,
      { row, actor, effectiveTime }: { row: CanaryRow; actor: Actor; effectiveTime: number | undefined },
    ): Promise<void> {
      const { after } = openCanaryChanges(keyring, row)
      const input: JsonObject =
        row.kind === 'price'
          ? { ...priceFields(JSON.parse(String(after.price)) as Price), effective_time: effectiveTime }
          : fieldsOf(after)
      if (!(await stateOf(changing.trx, row))) throw notFound(row.kind)
      await make(callIn(changing, actor), row, input)
    },
  }
}

export type CanaryChanges = ReturnType<typeof createCanaryChanges>
