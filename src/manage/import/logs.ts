import { storable, storableJson } from '../../domain/text.ts'
import { transact } from '../../store/engine/store.ts'
import { findImports, saveImports } from '../../store/records/imports.ts'
import { addUsage } from '../../store/usage/imported.ts'
import { auditImport, type ImportContext, importRow } from './context.ts'
import type { SourceGateway, SourceLog } from './inventory.ts'

type Ids = {
  readonly users: ReadonlyMap<string, number>
  readonly tokens: ReadonlyMap<string, number>
  readonly channels: ReadonlyMap<string, number>
}

const DAY_S = 86_400
/** The id of the only row that remembers how far usage rows were imported. */
const POSITION = 'logs'

/** Imports usage rows of the last days, for the log and the charts. They change no balance. */
export async function importLogs(
  context: ImportContext,
  gateway: SourceGateway,
  ids: Ids,
  days: number,
): Promise<void> {
  const { db, isDry, notes, now, source } = context
  const last = (await findImports(db, source, 'logs')).get(POSITION)
  const rowOf = (log: SourceLog) => ({
    created_time: log.createdTime,
    type: log.type,
    user_id: ids.users.get(log.userId) ?? 0,
    token_id: ids.tokens.get(log.tokenId) ?? 0,
    token_name: log.tokenName,
    channel_id: ids.channels.get(log.channelId) ?? 0,
    model_name: log.model,
    content: storable(log.content),
    cost: log.nanos,
    prompt_tokens: log.promptTokens,
    completion_tokens: log.completionTokens,
    use_time_ms: log.useTimeMs,
    is_stream: log.isStream ? 1 : 0,
    address: log.address,
    request_id: log.requestId === '' ? `${source}-${log.sourceId}` : log.requestId,
    other: storableJson(JSON.stringify({ ...log.other, imported_from: source })),
  })
  const after = last === undefined ? undefined : String(last.target_id)
  for await (const page of gateway.logs?.(after, now() - days * DAY_S) ?? []) {
    const logs = page.filter(log => ids.users.has(log.userId))
    if (page.length > logs.length) notes.count('usage rows', 'skipped', page.length - logs.length)
    notes.count('usage rows', 'created', logs.length)
    if (isDry) continue
    await transact(db, async trx => {
      await addUsage(trx, logs.map(rowOf))
      const target = Number(page.at(-1)?.sourceId ?? 0)
      await saveImports(trx, [
        importRow(context, 'logs', { sourceId: POSITION, targetId: target, state: {} }),
      ])
      await auditImport(trx, context, {
        action: 'import.logs',
        target: `import:${source}`,
        after: { rows: logs.length, up_to: target },
      })
    })
  }
}
