import { notFound } from '../../domain/errors.ts'
import { adviceOf, codeIn, explainCode } from '../../domain/explanation.ts'
import { LOG_TYPE } from '../../domain/log.ts'
import { isAdmin } from '../../domain/role.ts'
import { storable } from '../../domain/text.ts'
import { countByCode, findByMessage, findByProviderId, listByCode } from '../../store/usage/find-request.ts'
import type { LogStore } from '../../store/usage/log-filter.ts'
import type { LogWithNames } from '../../store/usage/logs.ts'
import type { explainContract } from '../contract/explain.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { markIfStale } from '../server/freshness.ts'
import { actionOf, mayTake } from './explain-action.ts'
import type { Explanation } from './explain-cause.ts'
import {
  type Asker,
  detailsOf,
  type ExplainDeps,
  factsOf,
  type PresentState,
  presentOf,
  type RequestFacts,
} from './explain-facts.ts'
import {
  attemptSentence,
  failureSentence,
  outcomeSentence,
  passedOverSentences,
  presentSentences,
} from './explain-sentences.ts'
import { presenterFor } from './log-view.ts'
import { rowsOfRequest, untilWritten } from './request-rows.ts'

const REQUEST_ID = /req_[0-9A-Z]{26}(?![\w-])/
/** Words of a text that may be an ID of a provider: long, with a digit. */
const PROVIDER_ID = /[A-Za-z0-9][\w-]{9,127}/g
const MAX_PROVIDER_IDS = 8
const DAY_S = 86_400

/** Undoes the quoting of an error that was copied as JSON or as the representation of an object. */
const unquoted = (text: string) => text.replace(/\\(["'])/g, '$1')

/** The code of a text that is nothing else. */
const BARE_CODE = /^[a-z][a-z0-9]*(?:_[a-z0-9]+)+$/

type Owner = { readonly userId: number | undefined }
type FoundRow = { readonly row: LogWithNames; readonly isById: boolean }

/** Whether the client of a request got this code. Users do not learn what providers reported about other attempts. */
function hasCode(row: LogWithNames, code: string, isForAdmin: boolean): boolean {
  const { error_code = '', trace } = detailsOf(row)
  if (error_code === code) return true
  const attempts = trace?.attempts ?? []
  if (isForAdmin) return attempts.some(({ provider }) => provider?.code === code)
  return error_code.startsWith('upstream_4') && attempts.at(-1)?.provider?.code === code
}

async function findByCode(
  store: LogStore,
  code: string | undefined,
  owner: Owner,
): Promise<LogWithNames | undefined> {
  if (code === undefined) return undefined
  const rows = await listByCode(store, code, owner)
  return rows.find(row => hasCode(row, code, owner.userId === undefined))
}

async function findRow(store: LogStore, text: string, owner: Owner): Promise<FoundRow | undefined> {
  const requestId = REQUEST_ID.exec(text)?.[0]
  if (requestId !== undefined) {
    const rows = await rowsOfRequest(store, requestId, owner.userId)
    const requests = (rows ?? []).filter(({ type }) => type === LOG_TYPE.consume || type === LOG_TYPE.error)
    const row = requests.find(({ type }) => type === LOG_TYPE.error) ?? requests[0]
    return row && { row, isById: true }
  }
  const words = (text.match(PROVIDER_ID) ?? []).filter(word => /\d/.test(word))
  const ofProvider = await findByProviderId(store, words.slice(0, MAX_PROVIDER_IDS), owner)
  if (ofProvider) return { row: ofProvider, isById: true }
  // A message may contain a code too: "All channels failed (last: 401 invalid_api_key)."
  const row =
    (await findByCode(store, BARE_CODE.test(text) ? text : undefined, owner)) ??
    (await findByMessage(store, { text, texts: `${text}\n${unquoted(text)}` }, owner)) ??
    (await findByCode(store, codeIn(text), owner))
  return row && { row, isById: false }
}

/** Of a request that was found by its error: how many have the same. */
async function othersSentence(deps: ExplainDeps, { code }: RequestFacts, owner: Owner): Promise<string[]> {
  if (code === undefined) return []
  const count = await countByCode(deps, code, { ...owner, from: deps.now() - DAY_S })
  if (count === 0) return []
  return [
    count === 1
      ? `This is the only request with ${code} in the last 24 hours.`
      : `This is the newest of ${count} requests with ${code} in the last 24 hours.`,
  ]
}

/** Why the request failed. The reasons that only administrators may know are more specific. */
function whySentences(
  why: string,
  facts: RequestFacts,
  present: PresentState,
  isForAdmin: boolean,
): string[] {
  if (!isForAdmin) return [why]
  if (facts.code === 'no_channel_available' && facts.passedOver.length > 0)
    return passedOverSentences(facts, present)
  if (facts.code === 'model_not_found' && present.channels.length > 0) return []
  return [failureSentence(facts, present) ?? why]
}

/** Codes whose reason is the present state of the token. */
const OF_TOKEN: ReadonlySet<string> = new Set(['invalid_api_key', 'ip_not_allowed', 'model_not_allowed'])

/** Explains why a request failed: what decided, what each attempt got, and what to do about it. */
export const createExplainRequest =
  (deps: ExplainDeps) =>
  async (text: string, asker: Asker): Promise<Explanation> => {
    const isForAdmin = isAdmin(asker)
    const owner = { userId: isForAdmin ? undefined : asker.id }
    const match = await untilWritten(text, () => findRow(deps, text, owner))
    if (!match) return explainText(text)
    const { row, isById } = match
    const facts = await factsOf(deps, row)
    const { code, attempts } = facts
    const { rule, why } = code === undefined ? { rule: 'none' as const, why: undefined } : explainCode(code)
    const present = await presentOf(deps, facts)
    const action = actionOf(facts, present)
    const isOffered = action !== undefined && mayTake(action, facts, present, asker)
    const hasAttempts = attempts.length > 1 || code !== undefined
    const nowSentences = presentSentences(rule, { facts, present, isForAdmin })
    const isOfToken = code !== undefined && OF_TOKEN.has(code) && nowSentences.length > 0
    return {
      request: presenterFor(asker)(row),
      rule,
      sentences: [
        outcomeSentence(facts),
        ...(isById ? [] : await othersSentence(deps, facts, owner)),
        ...(why === undefined || isOfToken ? [] : whySentences(why, facts, present, isForAdmin)),
        ...(isForAdmin && hasAttempts ? attempts.map((each, at) => attemptSentence(facts, each, at)) : []),
        ...(isForAdmin && code !== 'no_channel_available' ? passedOverSentences(facts, present) : []),
        ...nowSentences,
        ...(action && !isOffered ? [adviceOf(action)] : []),
      ],
      attempts: attempts.map(({ channel, status, ms, provider }) => ({
        channel_id: isForAdmin ? channel : null,
        channel_name: isForAdmin ? (facts.channelNames.get(channel) ?? '') : '',
        status: isForAdmin ? status : null,
        ms,
        provider: (isForAdmin && provider) || null,
      })),
      action: isOffered ? action : null,
    }
  }

/** No request matches, but the text may have a code of the gateway. */
function explainText(text: string): Explanation {
  const code = codeIn(text)
  if (code === undefined) throw notFound('request')
  const { rule, why } = explainCode(code)
  return {
    request: null,
    rule,
    sentences: ['No request in the log has this error. It has the following meaning.', why],
    attempts: [],
    action: null,
  }
}

/** The routes that explain requests (docs/reference/management-api.md: Request explanation). */
export function createExplainHandlers(deps: Deps): Handlers<typeof explainContract> {
  const explain = createExplainRequest({
    db: deps.db,
    engine: deps.engine,
    now: deps.now,
    conditions: deps.channels.conditions,
  })
  return {
    explainRequest: async ({ actor, query, reply }) => {
      await markIfStale(reply, deps.ledger.catchUp())
      // A copied text may have characters that PostgreSQL does not store.
      return explain(storable(query.q), actor)
    },
  }
}
