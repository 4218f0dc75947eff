import { Refusal } from '../../domain/errors.ts'
import type {
  GatewayRequest,
  ImportReport,
  ImportRequest,
  LiteLlmRequest,
  PriceRequest,
} from '../../domain/import.ts'
import { enabledModels } from '../../store/records/channels.ts'
import { findImports } from '../../store/records/imports.ts'
import { importAliases } from './aliases.ts'
import { importChannels } from './channels.ts'
import { type ImportContext, stateOf } from './context.ts'
import type { SourceGateway } from './inventory.ts'
import { openLiteLlm } from './litellm/gateway.ts'
import { importLogs } from './logs.ts'
import { openNewApi } from './new-api/gateway.ts'
import { createImportNotes } from './notes.ts'
import { importPrices } from './price-versions.ts'
import { readCsvPrices } from './prices/csv.ts'
import { readOpenRouterPrices } from './prices/openrouter.ts'
import { SourceError } from './source/database.ts'
import { openSource } from './source/open.ts'
import { importTokens } from './tokens.ts'
import { importUsers } from './users.ts'

export type ImportDeps = Omit<ImportContext, 'source' | 'isDry' | 'notes'>

/** An id stands for the same row as at the last import, or the database is another one. */
async function mustBeSameSource(
  { db, digest, source }: ImportContext,
  gateway: SourceGateway,
): Promise<void> {
  const refuse = (label: string) => {
    throw new SourceError(
      `this is not the database that was imported as "${source}" before: ${label} is another one there. Choose a name for it: --name NAME`,
    )
  }
  const users = await findImports(db, source, 'user')
  const channels = await findImports(db, source, 'channel')
  const tokens = await findImports(db, source, 'token')
  if (users.size === 0 && channels.size === 0 && tokens.size === 0) return
  for await (const page of gateway.users()) {
    for (const { sourceId, anchor } of page) {
      const row = users.get(sourceId)
      const last = row === undefined ? '' : (stateOf(row).anchor ?? '')
      // Rows from before new-api had the column have no time.
      if (last !== '' && anchor !== '' && last !== anchor) refuse(`user ${sourceId}`)
    }
    break
  }
  for await (const page of gateway.channels()) {
    for (const { sourceId, anchor } of page) {
      const row = channels.get(sourceId)
      if (row && anchor !== '' && stateOf(row).anchor !== anchor) refuse(`channel ${sourceId}`)
    }
    break
  }
  for await (const page of gateway.tokens()) {
    for (const { sourceId, key } of page) {
      const row = tokens.get(sourceId)
      if (row && 'value' in key && stateOf(row).anchor !== digest(key.value)) refuse(`token ${sourceId}`)
    }
    break
  }
}

/** Imports everything that a gateway has, in transactions of one page each. An interrupted import can be run again. */
async function importGateway(context: ImportContext, gateway: SourceGateway, logDays?: number) {
  const users = await importUsers(context, gateway)
  const channels = await importChannels(context, gateway.channels())
  await importPrices(context, await gateway.prices())
  if (gateway.aliases) await importAliases(context, await gateway.aliases())
  const tokens = await importTokens(context, gateway, users)
  if (logDays !== undefined) await importLogs(context, gateway, { users, tokens, channels }, logDays)
  await gateway.conclude()
}

const SILENT = { note() {}, count() {} }

async function importNewApi(
  context: ImportContext,
  { kind, from, logDays }: GatewayRequest & { readonly logDays?: number },
): Promise<void> {
  const database = await openSource(from)
  try {
    const open = (notes: ImportContext['notes']) =>
      openNewApi({ database, variant: kind, now: context.now(), notes })
    await mustBeSameSource(context, await open({ ...context.notes, ...SILENT }))
    await importGateway(context, await open(context.notes), logDays)
  } finally {
    await database.close()
  }
}

async function importLiteLlm(
  context: ImportContext,
  { config, database: from }: LiteLlmRequest,
): Promise<void> {
  const database = from === undefined ? undefined : await openSource(from)
  try {
    const { digest, now, notes } = context
    await importGateway(context, await openLiteLlm({ config, database, digest, now: now(), notes }))
  } finally {
    await database?.close()
  }
}

async function importPriceList(context: ImportContext, request: PriceRequest): Promise<void> {
  const options = { isReplacing: request.isReplacing }
  if (request.kind === 'csv') return importPrices(context, readCsvPrices(request.text), options)
  const served = request.isWhole ? undefined : await enabledModels(context.db)
  await importPrices(context, readOpenRouterPrices(request.models, { served, notes: context.notes }), options)
}

/** Runs imports, one at a time: two of the same source would both create its rows. */
export function createImport(deps: ImportDeps) {
  let isRunning = false

  async function run(request: ImportRequest): Promise<ImportReport> {
    const source = request.name ?? request.kind
    const notes = createImportNotes(source, request.dryRun)
    const context: ImportContext = { ...deps, source, isDry: request.dryRun, notes }
    switch (request.kind) {
      case 'new-api':
      case 'one-api':
        await importNewApi(context, request)
        break
      case 'litellm':
        await importLiteLlm(context, request)
        break
      default:
        await importPriceList(context, request)
    }
    return notes.report()
  }

  return async function importFrom(request: ImportRequest): Promise<ImportReport> {
    if (isRunning) throw new SourceError('another import is running; wait for its end')
    isRunning = true
    try {
      return await run(request)
    } catch (error) {
      // A rule of the management API that refuses a whole import is reported like a source that cannot be read.
      throw error instanceof Refusal ? new SourceError(error.message) : error
    } finally {
      isRunning = false
    }
  }
}
