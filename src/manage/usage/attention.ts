import { createHash } from 'node:crypto'
import type { Actor } from '../../domain/actor.ts'
import { isKeyRefusal } from '../../domain/channel-condition.ts'
import { isAdmin } from '../../domain/role.ts'
import { isLow } from '../../domain/token.ts'
import {
  disabledByGateway,
  implausibleChannels,
  openSuspense,
  rejectedKeys,
  singleChannelModels,
  tokensNeedingAttention,
  unrefundedVideos,
} from '../../store/records/attention.ts'
import { addDismissal, listDismissals, removeDismissals } from '../../store/records/dismissals.ts'
import { pricesInForce } from '../../store/records/prices.ts'
import { commonFailures } from '../../store/usage/common-failures.ts'
import { namesOf } from '../../store/usage/names.ts'
import { ROLLUP_S, sumRollups } from '../../store/usage/rollups.ts'
import { presentCondition } from '../channels/channel-state.ts'
import { listServed } from '../channels/served.ts'
import type { insightContract } from '../contract/insight.ts'
import type { Answer } from '../contract/route.ts'
import { createPriceOf } from '../money/pricing.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'

const DAY_S = 86_400
const WEEK_S = 7 * DAY_S
/** The default retention of usage. */
const UNREFUNDED_S = 90 * DAY_S
const MAX_NEEDS = 50
/** The models that a group lists by name. */
const MAX_NAMES = 50
const ID_LENGTH = 32
/** A smaller share of failed requests is usual. */
const MIN_FAILING_SHARE = 0.1
/** Fewer failures are reported only if most requests fail. */
const MIN_FAILURES = 5
const MOST = 0.5

type Item = Answer<(typeof insightContract)['attention']>[number]
type Optional = 'until' | 'count' | 'names'
type Need = Omit<Item, Optional | 'id' | 'is_dismissed'> &
  Partial<Pick<Item, Optional>> & {
    /** What changes when the cause does; by default the detail and the time. */
    readonly cause?: string
  }
const URGENCY = { error: 0, warning: 1, info: 2 } as const

/** Models with the same need share one item: a new gateway would have one for each of its models. */
function groupModels(need: Pick<Need, 'kind' | 'level' | 'detail'>, models: readonly string[]): Need[] {
  const [first] = models
  if (first === undefined) return []
  const isOne = models.length === 1
  return [
    {
      ...need,
      target: isOne ? `model:${first}` : 'models',
      name: isOne ? first : String(models.length),
      since: null,
      count: models.length,
      names: models.slice(0, MAX_NAMES),
      cause: models.toSorted().join('\n'),
    },
  ]
}

/** Names a need and its cause, so that a dismissed need appears again when its cause changes. */
const idOf = ({ kind, target, detail, since, cause = `${since} ${detail}` }: Need) =>
  createHash('sha256')
    .update(JSON.stringify([kind, target, cause]))
    .digest('hex')
    .slice(0, ID_LENGTH)

/** What needs attention, most urgent first (docs/reference/console.md: Attention). */
export function createAttention({
  db,
  engine,
  now,
  channels,
  exposure,
}: Deps): Pick<Handlers<typeof insightContract>, 'attention' | 'dismissAttention'> {
  async function needsOfChannels(): Promise<Need[]> {
    const [off, keys, implausible, conditions] = await Promise.all([
      disabledByGateway(db),
      rejectedKeys(db),
      implausibleChannels(db),
      channels.conditions(),
    ])
    const unready = conditions.filter(({ channel }) => channel.state !== 'ready')
    const names = await namesOf(
      db,
      'channel',
      unready.map(({ id }) => id),
    )
    return [
      ...off.map(
        ({ id, name, status_reason }): Need => ({
          kind: 'channel_disabled',
          level: 'error',
          target: `channel:${id}`,
          name,
          detail: status_reason,
          since: null,
        }),
      ),
      ...implausible.map(
        ({ id, name, count, oldest }): Need => ({
          kind: 'implausible_usage',
          level: 'error',
          target: `channel:${id}`,
          name,
          detail: `${count} requests reported more usage than is possible. The excess is an unresolved charge.`,
          since: oldest,
        }),
      ),
      ...channels.disabledOverrides().map(
        ({ id, name, reasons }): Need => ({
          kind: 'override_disabled',
          level: 'warning',
          target: `channel:${id}`,
          name,
          detail: reasons.join('; '),
          since: null,
        }),
      ),
      ...keys.map(
        ({ id, name, position, reason, disabled_time }): Need => ({
          kind: 'key_rejected',
          level: 'warning',
          target: `channel:${id}`,
          name,
          detail: `Key ${position}: ${reason}`,
          since: disabled_time,
        }),
      ),
      ...unready.map(({ id, channel }): Need => {
        const { cooldown_until, reason } = presentCondition(channel, now())
        return {
          kind: 'channel_cooling_down',
          // A rejected key does not recover by itself.
          level: isKeyRefusal(Number.parseInt(reason, 10)) ? 'error' : 'warning',
          target: `channel:${id}`,
          name: names.get(id) ?? String(id),
          detail: reason,
          since: null,
          until: cooldown_until,
        }
      }),
    ]
  }

  /** Unresolved charges and failed videos that need a decision. */
  async function needsOfBooks(): Promise<Need[]> {
    const [doubts, videos] = await Promise.all([openSuspense(db), unrefundedVideos(db, now() - UNREFUNDED_S)])
    const needs: Need[] = []
    if (doubts.count > 0)
      needs.push({
        kind: 'suspense_open',
        level: 'warning',
        target: 'ledger:suspense',
        name: String(doubts.count),
        detail: 'A provider may have billed for responses that were not delivered.',
        since: doubts.oldest,
      })
    if (videos.count > 0)
      needs.push({
        kind: 'video_unrefunded',
        level: 'warning',
        target: 'video:unrefunded',
        name: String(videos.count),
        detail: 'Failed, billed and not refunded.',
        since: videos.oldest,
      })
    return needs
  }

  /** Insecure settings of the deployment: a public address without TLS, an untrusted proxy. */
  async function needsOfDeployment(): Promise<Need[]> {
    const { publicHost } = exposure
    const proxy = await exposure.untrustedProxy()
    const needs: Need[] = []
    if (publicHost !== undefined)
      needs.push({
        kind: 'public_without_tls',
        level: 'warning',
        target: 'setting:HOST',
        name: publicHost,
        detail: 'Put a proxy with TLS in front of the gateway and add it to SLUICE_TRUSTED_PROXIES.',
        since: null,
      })
    if (proxy !== undefined)
      needs.push({
        kind: 'untrusted_proxy',
        level: 'warning',
        target: 'setting:SLUICE_TRUSTED_PROXIES',
        name: proxy.peer,
        detail: 'Its clients count as one address. If it is your proxy, add it to SLUICE_TRUSTED_PROXIES.',
        since: proxy.time,
      })
    return needs
  }

  async function singleModels(): Promise<Need[]> {
    const detail = 'No other enabled channel serves it.'
    return groupModels({ kind: 'model_single_channel', level: 'info', detail }, await singleChannelModels(db))
  }

  async function unpricedModels(): Promise<Need[]> {
    const [served, prices] = await Promise.all([listServed(db), pricesInForce(db, now())])
    const priceOf = createPriceOf(prices, now())
    return groupModels(
      { kind: 'model_unpriced', level: 'warning', detail: 'It has no price, so requests are rejected.' },
      served.filter(model => priceOf(model) === undefined).map(({ name }) => name),
    )
  }

  /** Failed and rejected requests, if they are many: of all users, or of one. */
  async function needsOfRequests(userId: number | undefined): Promise<Need[]> {
    const to = Math.ceil((now() + 1) / ROLLUP_S) * ROLLUP_S
    const { requests, failures } = await sumRollups(db, { from: to - DAY_S, to, userId })
    const share = failures / Math.max(1, requests)
    if (share < MIN_FAILING_SHARE || (failures < MIN_FAILURES && share < MOST)) return []
    const [most] = await commonFailures({ db, engine }, { userId, from: now() - DAY_S })
    if (!most) return []
    const { code, count, token, newestTime } = most
    const ofToken = token && ` (token "${token.name}" (#${token.id}))`
    return [
      {
        kind: 'requests_failing',
        level: share >= MOST ? 'error' : 'warning',
        target: `code:${code}`,
        name: code,
        count: failures,
        detail: `${failures} of ${requests} requests failed or were rejected in the last 24 hours, ${count} of them with ${code}${ofToken ?? ''}.`,
        since: newestTime,
        cause: `${code} ${token?.id}`,
      },
    ]
  }

  async function needsOfTokens(userId: number): Promise<Need[]> {
    const tokens = await tokensNeedingAttention(db, userId, { after: now(), until: now() + WEEK_S })
    return tokens.map(token => {
      const { id, name, expired_time, credited, posted } = token
      const common = { level: 'info', target: `token:${id}`, name } as const
      return isLow(token)
        ? {
            ...common,
            kind: 'token_low',
            detail: `${Math.floor((posted / credited) * 100)} % of its quota is used.`,
            since: null,
          }
        : { ...common, kind: 'token_expiring', detail: 'Expires within a week.', since: expired_time }
    })
  }

  async function needsOf(actor: Actor): Promise<Item[]> {
    const ofAll = isAdmin(actor)
      ? [needsOfDeployment(), needsOfChannels(), needsOfBooks(), singleModels(), unpricedModels()]
      : []
    const [dismissed, ...needs] = await Promise.all([
      listDismissals(db, actor.id),
      ...ofAll,
      needsOfRequests(isAdmin(actor) ? undefined : actor.id),
      needsOfTokens(actor.id),
    ])
    const isDismissed = new Set(dismissed)
    const items = needs.flat().map(need => {
      const { cause: _cause, ...fields } = need
      const id = idOf(need)
      return { until: null, count: 1, names: [], ...fields, id, is_dismissed: isDismissed.has(id) }
    })
    const present = new Set(items.map(({ id }) => id))
    // If the need has gone, its dismissal goes too: a need that returns is a new one.
    await removeDismissals(
      db,
      actor.id,
      dismissed.filter(id => !present.has(id)),
    )
    return items
  }

  return {
    attention: async ({ actor }) =>
      (await needsOf(actor))
        .sort(
          (a, b) => Number(a.is_dismissed) - Number(b.is_dismissed) || URGENCY[a.level] - URGENCY[b.level],
        )
        .slice(0, MAX_NEEDS),

    dismissAttention: async ({ actor, body: { item, is_dismissed = true }, change }) =>
      change(async ({ trx }) => {
        if (is_dismissed) await addDismissal(trx, actor.id, { item, time: now() })
        else await removeDismissals(trx, actor.id, [item])
        return undefined
      }),
  }
}
