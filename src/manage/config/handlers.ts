import type { z } from 'zod'
import type { AccountId } from '../../domain/account.ts'
import { type Actor, SYSTEM } from '../../domain/actor.ts'
import { ROLE } from '../../domain/role.ts'
import type { OutboundClient } from '../../http/outbound.ts'
import type { Passwords } from '../../identity/passwords.ts'
import { createAlertHandlers } from '../alerts/alerts.ts'
import { createAliasHandlers } from '../channels/aliases.ts'
import { createChannelHandlers } from '../channels/channels.ts'
import { alertContract } from '../contract/alerts.ts'
import { aliasContract } from '../contract/aliases.ts'
import { channelContract } from '../contract/channels.ts'
import { priceContract } from '../contract/prices.ts'
import type { Route } from '../contract/route.ts'
import { settingContract } from '../contract/settings.ts'
import { tokenContract } from '../contract/tokens.ts'
import { userContract } from '../contract/users.ts'
import { createPriceHandlers } from '../money/prices.ts'
import { createTokenHandlers } from '../people/tokens.ts'
import { createUserHandlers } from '../people/users.ts'
import type { Changing, RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { validatorCompiler } from '../server/serve.ts'
import { createSettingHandlers } from '../server/settings.ts'

/** The dependencies of changes to the configuration as a whole. */
export type ConfigDeps = Pick<
  Deps,
  'db' | 'engine' | 'now' | 'keyring' | 'digest' | 'passwords' | 'addressPolicy'
> & {
  /** Invalidates the relay's caches of these audit targets. */
  announce(targets: readonly string[]): Promise<unknown>
  readonly outbound: Pick<OutboundClient, 'refuseUrl'>
  /** Settles the requests of an account, and returns its leases to the store. */
  flushAndReturn(account: AccountId): Promise<void>
}

/** The operator of the machine, who may do what Root may do. */
export const OPERATOR: Actor = {
  id: 0,
  username: SYSTEM,
  role: ROLE.root,
  via: 'command',
  credentialId: 0,
}

const ROUTES = {
  ...channelContract,
  ...aliasContract,
  ...settingContract,
  ...priceContract,
  ...alertContract,
  ...userContract,
  ...tokenContract,
} as const
type RouteName = keyof typeof ROUTES

type Input = {
  readonly body?: unknown
  readonly params?: Readonly<Record<string, number>>
  /** Default: the author of the change. */
  readonly actor?: Actor
}

/** Validates a body as the route of this schema does. */
export function parseBody<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = validatorCompiler({ schema, httpPart: 'body' })(value)
  if (result.error) throw result.error
  return result.value as z.output<Schema>
}

export type ConfigCall = <T = { readonly id: number }>(name: RouteName, input: Input) => Promise<T>

/**
 * The handlers of the management API, in a transaction that is already open. A change of the configuration thus follows the
 * same rules as the same change by the API.
 */
export function createConfigCall(
  deps: ConfigDeps,
  { changing, actor, passwords }: { changing: Changing; actor: Actor; passwords: Passwords },
): ConfigCall {
  // The other dependencies belong to routes that are not called here.
  const bound = {
    ...deps,
    db: changing.trx,
    passwords,
    // Accounts were returned before the transaction: a worker could not write to the store meanwhile.
    ledger: { flushAndReturn: async () => {}, catchUp: async () => true },
    channels: { conditions: async () => [] },
  } as unknown as Deps
  const handlers = {
    ...createChannelHandlers(bound),
    ...createAliasHandlers(bound),
    ...createSettingHandlers(bound),
    ...createPriceHandlers(bound),
    ...createAlertHandlers(bound),
    ...createUserHandlers(bound),
    ...createTokenHandlers(bound),
  }
  return async <T>(name: RouteName, input: Input) => {
    const route: Route = ROUTES[name]
    const call = {
      params: input.params ?? {},
      query: {},
      body: route.body && parseBody(route.body, input.body),
      actor: input.actor ?? actor,
      change: (work: (changing: Changing) => Promise<unknown>) => work(changing),
    }
    const handle = handlers[name] as (call: RouteCall) => Promise<unknown>
    return (await handle(call as never)) as T
  }
}
