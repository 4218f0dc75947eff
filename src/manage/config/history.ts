import { isDeepStrictEqual } from 'node:util'
import { type Actor, SYSTEM } from '../../domain/actor.ts'
import type { ChangedField } from '../../domain/config-change.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { SETTINGS } from '../../domain/setting.ts'
import { lockAuditChain } from '../../store/books/chains.ts'
import type { ConfigChangeRow } from '../../store/engine/schema.ts'
import { type Db, type Trx, transact } from '../../store/engine/store.ts'
import { insertRevision, lastChange, lastRevision } from '../../store/records/config-history.ts'
import { findPrice } from '../../store/records/prices.ts'
import type { Deps } from '../server/deps.ts'
import { type ConfigKind, type ConfigState, createConfigStates } from './states.ts'

/** The kinds of objects that revisions contain (docs/reference/configuration-file.md: Revisions). */
export const RECORDED_KINDS = [
  'channel',
  'alias',
  'price',
  'setting',
  'alert_rule',
  'user_limits',
  'token_limits',
] as const satisfies readonly ConfigKind[]

export type RevisionAuthor = {
  readonly actor: Pick<Actor, 'id' | 'username'>
  /** As in the audit log. */
  readonly via: string
  readonly reason: string
}

/** The object that an audit target changes, if it has another name there. */
const RENAMED: Readonly<Record<string, ConfigKind>> = { user: 'user_limits', token: 'token_limits' }

/** The objects of the configuration that an audit record is about. */
async function targetsOf(trx: Trx, auditTarget: string): Promise<readonly string[]> {
  if (auditTarget === 'settings') return Object.keys(SETTINGS).map(key => `setting:${key}`)
  const [kind = '', id = ''] = auditTarget.split(':')
  if (kind === 'price') {
    const row = await findPrice(trx, Number(id))
    return row ? [`price:${row.model}`] : []
  }
  const recorded = RENAMED[kind] ?? kind
  return RECORDED_KINDS.some(name => name === recorded) ? [`${recorded}:${id}`] : []
}

const json = (state: ConfigState | undefined) => (state ? JSON.stringify(state.fields) : null)
const isSame = (before: string | null, after: string | null) =>
  before === after ||
  (before !== null && after !== null && isDeepStrictEqual(JSON.parse(before), JSON.parse(after)))

/** Writes a revision for every change of the configuration, in the transaction of the change. */
export function createConfigHistory(deps: Pick<Deps, 'keyring' | 'now'>) {
  const states = createConfigStates(deps)

  const write = (
    trx: Trx,
    { actor, via, reason }: RevisionAuthor,
    changes: Omit<ConfigChangeRow, 'revision'>[],
  ) =>
    insertRevision(
      trx,
      { time: deps.now(), actor_id: actor.id, actor_name: actor.username, via, reason },
      changes,
    )

  return {
    states,

    /**
     * Records what the audited targets have become. Call it after the audit records, which lock the audit chain. `origins`
     * has the former target of each restored object. Returns the revision; undefined if the configuration is unchanged.
     */
    async record(
      trx: Trx,
      auditTargets: Iterable<string>,
      author: RevisionAuthor,
      origins: ReadonlyMap<string, string> = new Map(),
    ): Promise<number | undefined> {
      const targets = new Set<string>()
      for (const auditTarget of new Set(auditTargets))
        for (const target of await targetsOf(trx, auditTarget)) targets.add(target)
      const changes: Omit<ConfigChangeRow, 'revision'>[] = []
      for (const target of targets) {
        const last = await lastChange(trx, target)
        const state = await states.read(trx, target)
        const [before, after] = [last?.after ?? null, json(state)]
        if (isSame(before, after)) continue
        const object = last?.object ?? origins.get(target) ?? target
        changes.push({ target, object, name: state?.name ?? last?.name ?? '', before, after })
      }
      return changes.length === 0 ? undefined : write(trx, author, changes)
    },

    /** Records everything that differs from the last revision, after changes in several transactions, such as an import. */
    async recordAll(db: Db, author: RevisionAuthor): Promise<void> {
      await transact(db, async trx => {
        await lockAuditChain(trx)
        const changes: Omit<ConfigChangeRow, 'revision'>[] = []
        for (const kind of RECORDED_KINDS)
          for (const [target, state] of await states.list(trx, kind)) {
            const last = await lastChange(trx, target)
            const [before, after] = [last?.after ?? null, json(state)]
            if (isSame(before, after)) continue
            changes.push({ target, object: last?.object ?? target, name: state.name, before, after })
          }
        if (changes.length > 0) await write(trx, author, changes)
      })
    },

    /** Writes the first revision, which contains the configuration as it is. */
    async start(db: Db): Promise<void> {
      if ((await lastRevision(db)) > 0) return
      await transact(db, async trx => {
        await lockAuditChain(trx)
        if ((await lastRevision(trx)) > 0) return
        const changes: Omit<ConfigChangeRow, 'revision'>[] = []
        for (const kind of RECORDED_KINDS)
          for (const [target, state] of await states.list(trx, kind))
            changes.push({ target, object: target, name: state.name, before: null, after: json(state) })
        await write(
          trx,
          { actor: { id: 0, username: SYSTEM }, via: 'gateway', reason: 'Start of the history' },
          changes,
        )
      })
    },
  }
}

export type ConfigHistory = ReturnType<typeof createConfigHistory>

/** The fields that differ. A field that is absent on one side is absent in the difference. */
export function differences(before: JsonObject | null, after: JsonObject | null): ChangedField[] {
  const paths = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])
  return [...paths]
    .filter(path => !isDeepStrictEqual(before?.[path], after?.[path]))
    .map(path => ({
      path,
      ...(before && Object.hasOwn(before, path) && { before: before[path] }),
      ...(after && Object.hasOwn(after, path) && { after: after[path] }),
    }))
}
