import { Refusal } from '../../domain/errors.ts'
import type {
  GatewayRequest,
  ImportReport,
  ImportRequest,
  LiteLlmRequest,
  PriceRequest,
} from '../../domain/import.ts'
import { enabledModels } from '../../store/records/channels.ts'
import { importAliases } from './aliases.ts'
import { importChannels } from './channels.ts'
import type { ImportContext } from './context.ts'
import type { SourceGateway } from './inventory.ts'
import { openLiteLlm } from './litellm/gateway.ts'
import { mustBeSameLiteLlm } from './litellm/same-database.ts'
import { importLogs } from './logs.ts'
import { openNewApi } from './new-api/gateway.ts'
import { createImportNotes } from './notes.ts'
import { importPrices } from './price-versions.ts'
import { readCsvPrices } from './prices/csv.ts'
import { readOpenRouterPrices } from './prices/openrouter.ts'
import { mustBeSameSource } from './same-source.ts'
import { SourceError } from './source/database.ts'
import { openSource } from './source/open.ts'
import { importTokens } from './tokens.ts'
import { importUsers } from './users.ts'

export type ImportDeps = Omit<ImportContext, 'source' | 'isDry' | 'notes'>

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
    const open = (to: ImportContext['notes']) =>
      openLiteLlm({ config, database, digest, now: now(), notes: to })
    if (database) await mustBeSameLiteLlm(context, await open({ ...notes, ...SILENT }))
    await importGateway(context, await open(notes))
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
