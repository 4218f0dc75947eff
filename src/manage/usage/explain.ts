import { notFound } from '../../domain/errors.ts'
import { adviceOf, codeIn, explainCode } from '../../domain/explanation.ts'
import { LOG_TYPE } from '../../domain/log.ts'
import { isAdmin } from '../../domain/role.ts'
import { storable } from '../../domain/text.ts'
import { findByMessage, findByProviderId } from '../../store/usage/find-request.ts'
import type { LogStore } from '../../store/usage/log-filter.ts'
import type { LogWithNames } from '../../store/usage/logs.ts'
import type { explainContract } from '../contract/explain.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { markIfStale } from '../server/freshness.ts'
import { actionOf, mayTake } from './explain-action.ts'
import { type Asker, type ExplainDeps, type Explanation, factsOf, presentOf } from './explain-facts.ts'
import {
  attemptSentence,
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

/** Undoes the quoting of an error that was copied as JSON or as the representation of an object. */
const unquoted = (text: string) => text.replace(/\\(["'])/g, '$1')

async function findRow(store: LogStore, text: string, asker: Asker): Promise<LogWithNames | undefined> {
  const owner = { userId: isAdmin(asker) ? undefined : asker.id }
  const requestId = REQUEST_ID.exec(text)?.[0]
  if (requestId !== undefined) {
    const rows = await rowsOfRequest(store, requestId, owner.userId)
    const requests = (rows ?? []).filter(({ type }) => type === LOG_TYPE.consume || type === LOG_TYPE.error)
    return requests.find(({ type }) => type === LOG_TYPE.error) ?? requests[0]
  }
  const words = (text.match(PROVIDER_ID) ?? []).filter(word => /\d/.test(word))
  const ofProvider = await findByProviderId(store, words.slice(0, MAX_PROVIDER_IDS), owner)
  return ofProvider ?? findByMessage(store, `${text}\n${unquoted(text)}`, owner)
}

/** Explains why a request failed: what decided, what each attempt got, and what to do about it. */
export const createExplainRequest =
  (deps: ExplainDeps) =>
  async (text: string, asker: Asker): Promise<Explanation> => {
    const row = await untilWritten(() => findRow(deps, text, asker))
    if (!row) return explainText(text)
    const isForAdmin = isAdmin(asker)
    const facts = await factsOf(deps, row)
    const { code, attempts } = facts
    const { rule, why } = code === undefined ? { rule: 'none' as const, why: undefined } : explainCode(code)
    const present = await presentOf(deps, facts)
    const action = actionOf(facts, present)
    const isOffered = action !== undefined && mayTake(action, facts, present, asker)
    const hasAttempts = attempts.length > 1 || code !== undefined
    return {
      request: presenterFor(asker)(row),
      rule,
      sentences: [
        outcomeSentence(facts),
        ...(why === undefined ? [] : [why]),
        ...(isForAdmin && hasAttempts ? attempts.map((each, at) => attemptSentence(facts, each, at)) : []),
        ...(isForAdmin ? passedOverSentences(facts) : []),
        ...presentSentences(rule, present, isForAdmin),
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
