import { isDeepStrictEqual } from 'node:util'
import type {
  ApplyInput,
  ApplyResult,
  NewSecret,
  PlannedChange,
  PlannedField,
} from '../../domain/config-change.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { fold } from '../../domain/text.ts'
import { OPERATOR as COMMAND_LINE } from '../../identity/passwords.ts'
import { lockAuditChain } from '../../store/books/chains.ts'
import type { ConfigOwnedRow } from '../../store/engine/schema.ts'
import { type Trx, transact } from '../../store/engine/store.ts'
import { appendAudit } from '../../store/records/audit.ts'
import { deleteOwned, listOwned, writeOwned } from '../../store/records/config-history.ts'
import { findUserByName } from '../../store/records/users.ts'
import { CONFIG_ITEMS, type ConfigOutline, configOutline } from '../contract/config-file.ts'
import type { AuditNote } from '../server/call.ts'
import { validatorCompiler } from '../server/serve.ts'
import { type ConfigDeps, createConfigCall, OPERATOR } from './handlers.ts'
import { createConfigHistory, differences } from './history.ts'
import { createFileKinds, DEFAULT_OWNER, type Existing, type FileKind } from './kinds.ts'
import { type ConfigState, splitTarget } from './states.ts'

type FileKindName = FileKind['kind']
type Section = Exclude<keyof ConfigOutline, 'version'>

/** The kind of an item of each section. */
const SECTIONS: Readonly<Record<Section, (item: JsonObject) => FileKindName>> = {
  settings: () => 'setting',
  channels: () => 'channel',
  aliases: () => 'alias',
  prices: () => 'price',
  users: () => 'user',
  tokens: () => 'token',
  alerts: item => ('kind' in item ? 'alert_rule' : 'alert_target'),
}

/** An item of the file, and its path there. */
type FileItem = { readonly kind: FileKindName; readonly at: string; readonly item: JsonObject }

/** Ends the transaction of a dry run, which is rolled back. */
class DryRunEnd extends Error {
  readonly result: ApplyResult
  constructor(result: ApplyResult) {
    super('dry run')
    this.result = result
  }
}

function check(schema: Parameters<typeof validatorCompiler>[0]['schema'], value: unknown, at: string): void {
  const { error } = validatorCompiler({ schema, httpPart: '' })(value)
  if (error) throw located(error, at)
}

const pathIn = (at: string, path: string) => [at, path].filter(part => part !== '').join('.')

/** The same error with paths in the file. */
function located(error: unknown, at: string): unknown {
  if (!(error instanceof Refusal) || at === '') return error
  if (error.errors === undefined) return new Refusal(error.code, `${at}: ${error.message}`)
  const errors = error.errors.map(({ path, message }) => ({
    path: pathIn(at, path === 'body' ? '' : path),
    message,
  }))
  const [first] = errors
  return new Refusal(error.code, `${first?.path} ${first?.message}`, { errors })
}

/** Both forms of settings: a map, or a list as `/api/option/` has it. */
function settingItems(settings: ConfigOutline['settings']): FileItem[] {
  if (Array.isArray(settings))
    return settings.map((item, index) => ({ kind: 'setting', at: `settings.${index}`, item }))
  return Object.entries(settings ?? {}).map(([key, value]) => ({
    kind: 'setting',
    at: `settings.${key}`,
    item: { key, value },
  }))
}

/** The items of a file that has the right form. Every error names the field. */
function readItems(document: unknown): FileItem[] {
  check(configOutline, document, '')
  const outline = document as ConfigOutline
  const items = Object.entries(SECTIONS).flatMap(([section, kindOf]): FileItem[] => {
    if (section === 'settings') return settingItems(outline.settings)
    const list = (outline[section as Section] ?? []) as readonly JsonObject[]
    return list.map((item, index) => ({ kind: kindOf(item), at: `${section}.${index}`, item }))
  })
  for (const { kind, at, item } of items) check(CONFIG_ITEMS[kind], item, at)
  return items
}

function refuseRepeats(items: readonly (FileItem & { readonly key: string })[]): void {
  const first = new Map<string, string>()
  for (const { kind, key, at } of items) {
    const name = `${kind} ${key}`
    const before = first.get(name)
    if (before !== undefined) throw invalid([{ path: at, message: `has the same name as ${before}` }])
    first.set(name, at)
  }
}

/** Quotas and passwords are used only when an account is created, so its state does not contain them. */
const openingFields = (item: JsonObject): PlannedField[] => [
  ...['quota', 'remain_quota']
    .filter(path => item[path] != null)
    .map(path => ({ path, before: null, after: item[path] })),
  ...(item.password == null
    ? []
    : [{ path: 'password', before: null, after: null, is_secret: true as const }]),
]

/** The fields of the file as they were applied: another value later means another way of changing it. */
const appliedFields = (item: JsonObject, { fields }: ConfigState, kind: FileKindName): JsonObject =>
  kind === 'price' ? fields : Object.fromEntries(Object.entries(fields).filter(([name]) => name in item))

const secretDifferences = (before: ConfigState | undefined, after: ConfigState): PlannedField[] =>
  Object.keys(after.secrets)
    .filter(path => after.secrets[path] !== (before?.secrets[path] ?? ''))
    .filter(path => isDeepStrictEqual(before?.fields[path], after.fields[path]) || path === 'key')
    .map(path => ({ path, is_secret: true as const }))

function plannedFields(
  before: ConfigState | undefined,
  after: ConfigState,
  applied: JsonObject,
): PlannedField[] {
  const fields = differences(before?.fields ?? null, after.fields).map(field =>
    before && Object.hasOwn(applied, field.path) && !isDeepStrictEqual(applied[field.path], field.before)
      ? { ...field, applied: applied[field.path] }
      : field,
  )
  return [...fields, ...secretDifferences(before, after)]
}

/** Applies a configuration file in one transaction (docs/reference/configuration-file.md: Applying a file). */
export function createConfigApply(deps: ConfigDeps) {
  const history = createConfigHistory(deps)
  const { states } = history

  /**
   * Returns the leases of accounts that become limited or unlimited. It cannot be done within the transaction, because the
   * workers write to the store.
   */
  async function returnLeases(items: readonly FileItem[]): Promise<ReadonlySet<string>> {
    const returned = new Set<string>()
    for (const kind of ['user', 'token'] as const) {
      const changing = items.filter(({ kind: own, item }) => own === kind && item.unlimited_quota != null)
      if (changing.length === 0) continue
      const desired = new Map(changing.map(({ item }) => [accountKey(item), item.unlimited_quota]))
      for (const [target, { fields }] of await states.list(deps.db, kind)) {
        const unlimited = desired.get(accountKey(fields))
        if (unlimited === undefined || unlimited === fields.unlimited_quota) continue
        await deps.flushAndReturn({ kind, ownerId: Number(splitTarget(target).key) })
        returned.add(target)
      }
    }
    return returned
  }
  const accountKey = ({ username, name }: JsonObject) =>
    `${fold(String(username ?? DEFAULT_OWNER).trim())}/${String(name ?? '').trim()}`

  /** Hashing takes time, so it is done before the transaction. */
  async function hashPasswords(items: readonly FileItem[]): Promise<ConfigDeps['passwords']> {
    const hashes = new Map<string, string>()
    for (const { kind, item } of items) {
      const { username, password } = item
      if (kind !== 'user' || typeof password !== 'string' || hashes.has(password)) continue
      if (await findUserByName(deps.db, String(username))) continue
      hashes.set(password, await deps.passwords.hash(password, COMMAND_LINE))
    }
    return {
      ...deps.passwords,
      hash: async (password, requester) => hashes.get(password) ?? deps.passwords.hash(password, requester),
    }
  }

  async function applyItems(
    trx: Trx,
    {
      items,
      kinds,
      notes,
      isPruning,
    }: {
      items: readonly FileItem[]
      kinds: readonly FileKind[]
      notes: AuditNote[]
      isPruning: boolean
    },
  ) {
    const changes: PlannedChange[] = []
    const removable: { kind: string; name: string }[] = []
    const owned = await listOwned(trx)
    const kindOfTarget = ({ target }: ConfigOwnedRow) => splitTarget(target).kind
    const forgotten: string[] = []
    const deletions: (() => Promise<void>)[] = []

    for (const kind of kinds) {
      const ownItems = items.filter(item => item.kind === kind.kind)
      const ownedRows = owned.filter(row => kindOfTarget(row) === kind.kind)
      if (ownItems.length === 0 && ownedRows.length === 0) continue
      const existing = await states.list(trx, kind.kind)
      const byKey = Map.groupBy(existing, ([, state]) => kind.keyOf(keyFields(kind, state)))
      const ownedByName = new Map(ownedRows.map(row => [row.name, row]))
      const keyed = ownItems.map(item => ({ ...item, key: kind.keyOf(item.item) }))
      refuseRepeats(keyed)
      const rankOf = await kind.ranks?.(keyed.map(({ item }) => item))
      if (rankOf) keyed.sort((a, b) => rankOf(a.item) - rankOf(b.item))

      for (const { at, item: raw, key } of keyed) {
        const mark = notes.length
        const row = ownedByName.get(key)
        try {
          const item = kind.resolve ? await kind.resolve(raw) : raw
          const own = row && existing.get(row.target)
          const existingObject = match(byKey.get(key) ?? [], own && { target: row.target, state: own })
          const before = existingObject?.state
          const target = existingObject ? existingObject.target : await kind.create(item)
          if (existingObject) await kind.update(existingObject, item)
          const after = await states.read(trx, target)
          const change = plan(kind, key, { before, after, row, item })
          if (change) changes.push(change)
          // The handler has written the values that were there.
          else notes.length = mark
          if (row && row.target !== target) forgotten.push(row.target)
          if (after)
            await writeOwned(trx, {
              target,
              name: key,
              fields: JSON.stringify(appliedFields(item, after, kind.kind)),
              time: deps.now(),
            })
        } catch (error) {
          throw located(error, at)
        }
      }

      const names = new Set(keyed.map(({ key }) => key))
      for (const row of ownedRows) {
        if (names.has(row.name)) continue
        const state = existing.get(row.target)
        if (!state) forgotten.push(row.target)
        else if (!isPruning) removable.push({ kind: kind.kind, name: state.name })
        else
          deletions.push(async () => {
            await kind.remove({ target: row.target, state })
            forgotten.push(row.target)
            const fields = differences(state.fields, null)
            changes.push({ action: 'delete', kind: kind.kind, name: state.name, fields, is_drift: false })
          })
      }
    }
    // The reverse order of creation, so that nothing is deleted before what names it.
    for (const remove of deletions.reverse()) await remove()
    await deleteOwned(trx, forgotten)
    return { changes, removable }
  }

  /** Settings are matched by their key, which is their name. */
  const keyFields = ({ kind }: FileKind, { name, fields }: ConfigState): JsonObject =>
    kind === 'setting' ? { key: name } : fields

  /** The object of an item: the one that was applied before, also if it was renamed, else the only one of this name. */
  function match(
    sameName: readonly (readonly [string, ConfigState])[],
    own: Existing | undefined,
  ): Existing | undefined {
    if (own && (sameName.length === 0 || sameName.some(([target]) => target === own.target))) return own
    const [first, second] = sameName
    if (second)
      throw invalid([{ path: 'name', message: `is the name of ${sameName.length} objects: rename one` }])
    return first && { target: first[0], state: first[1] }
  }

  type Outcome = {
    readonly before: ConfigState | undefined
    readonly after: ConfigState | undefined
    readonly row: ConfigOwnedRow | undefined
    readonly item: JsonObject
  }

  function plan(
    kind: FileKind,
    key: string,
    { before, after, row, item }: Outcome,
  ): PlannedChange | undefined {
    const applied = row ? (JSON.parse(row.fields) as JsonObject) : {}
    const name = (after ?? before)?.name ?? key
    const common = { kind: kind.kind, name }
    if (!after)
      return before
        ? { ...common, action: 'delete', fields: differences(before.fields, null), is_drift: false }
        : undefined
    const all = plannedFields(before, after, applied)
    // Of a new object, only what the file says about it; the rest are defaults.
    const fields =
      before || kind.kind === 'price'
        ? all
        : [...all.filter(({ path, is_secret }) => is_secret || path in item), ...openingFields(item)]
    if (before && fields.length === 0) return undefined
    const is_drift = before ? fields.some(field => 'applied' in field) : row !== undefined
    return { ...common, action: before ? 'update' : 'create', fields, is_drift }
  }

  return async function apply(input: ApplyInput): Promise<ApplyResult> {
    const items = readItems(input.document)
    await history.start(deps.db)
    const passwords = await hashPasswords(items)
    const returned = await returnLeases(items)
    const notes: AuditNote[] = []
    try {
      const result = await transact(deps.db, async trx => {
        notes.length = 0
        const secrets: NewSecret[] = []
        await lockAuditChain(trx)
        const changing = { trx, audit: (note: AuditNote) => void notes.push(note) }
        const call = createConfigCall(deps, { changing, actor: OPERATOR, passwords })
        const kinds = createFileKinds({ deps, trx, call, secrets, returned })
        const outcome = await applyItems(trx, { items, kinds, notes, isPruning: input.is_pruning })
        const revision = await recordCommand(trx, { history, notes, command: 'apply', input, now: deps.now })
        const whole = { ...outcome, secrets, revision: revision ?? null }
        if (input.is_dry_run) throw new DryRunEnd({ ...whole, secrets: [], revision: null })
        return whole
      })
      await deps.announce(notes.map(({ target }) => target))
      return result
    } catch (error) {
      if (error instanceof DryRunEnd) return error.result
      throw error
    }
  }
}

type Recording = {
  readonly history: { record: ReturnType<typeof createConfigHistory>['record'] }
  readonly notes: readonly AuditNote[]
  readonly command: string
  readonly input: { readonly reason: string }
  readonly now: () => number
  readonly origins?: ReadonlyMap<string, string>
}

const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value))

/** Writes the audit records and the revision of a command. */
export async function recordCommand(trx: Trx, { history, notes, command, input, now, origins }: Recording) {
  const via = `command:${command}`
  for (const note of notes)
    await appendAudit(trx, {
      time: now(),
      actor_id: OPERATOR.id,
      actor_name: OPERATOR.username,
      via,
      address: '',
      request_id: '',
      action: note.action,
      target: note.target,
      before: json(note.before),
      after: json(note.after),
    })
  const targets = notes.map(({ target }) => target)
  return history.record(trx, targets, { actor: OPERATOR, via, reason: input.reason }, origins)
}
