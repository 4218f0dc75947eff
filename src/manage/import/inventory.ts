import type { PriceInput } from '../../domain/price.ts'
import type { Role } from '../../domain/role.ts'

/** What an import reads of another gateway, already in our units and within our rules. */

/** Identifies a row in its gateway beyond its id, so that an import notices another database. Empty: not known. */
type Identified = {
  readonly sourceId: string
  readonly anchor: string
  /** For the report: `user 7 "alice"`. */
  readonly label: string
}

/** An amount in nanodollars. */
export type Amount = { readonly nanos: number; readonly isUnlimited: boolean }

export type SourceUser = Identified &
  Amount & {
    /** As it is there; an import makes a free name of it. */
    readonly name: string
    readonly displayName: string
    readonly email: string
    /** A bcrypt hash, or empty. */
    readonly passwordHash: string
    readonly role: Role
    readonly isEnabled: boolean
    readonly group: string
    readonly createdTime: number
    /** A system access token in the clear, or empty. */
    readonly accessToken: string
    /** JSON. */
    readonly limits: string
  }

export type SourceToken = Identified &
  Amount & {
    readonly ownerId: string
    /** The whole value with `sk-`, or only its SHA-256 in hex. */
    readonly key: { readonly value: string } | { readonly sha256: string; readonly hint: string }
    readonly name: string
    readonly isEnabled: boolean
    readonly createdTime: number
    readonly expiredTime: number
    /** Undefined: any model. */
    readonly models: readonly string[] | undefined
    readonly allowIps: readonly string[]
    readonly group: string
    /** JSON. */
    readonly limits: string
  }

export type SourceKey = {
  readonly key: string
  readonly status: number
  readonly reason: string
  readonly disabledTime: number
}

export type SourceChannel = Identified & {
  /** What identifies it apart from its key, if `sourceId` is this text and a digest of the key. */
  readonly identityWithoutKey?: string
  /** It has a key there, which this import cannot read. */
  readonly isKeyUnknown?: boolean
  readonly type: number
  /** Fields as `/api/channel/` takes them, not yet validated. */
  readonly fields: Readonly<Record<string, unknown>>
  readonly keys: readonly SourceKey[]
  readonly isMulti: boolean
  readonly status: number
  readonly statusReason: string
  readonly createdTime: number
  /** Why the channel must not be used as it is; empty if it may. */
  readonly unsupported: readonly string[]
}

export type SourcePrice = { readonly model: string; readonly price: PriceInput }

export type SourceAlias = { readonly name: string; readonly target: string }

export type SourceLog = {
  readonly sourceId: string
  readonly createdTime: number
  readonly type: number
  readonly userId: string
  readonly tokenId: string
  readonly channelId: string
  readonly tokenName: string
  readonly model: string
  readonly content: string
  readonly nanos: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly useTimeMs: number
  readonly isStream: boolean
  readonly address: string
  readonly requestId: string
  readonly other: Readonly<Record<string, unknown>>
}

/** Another gateway, read page by page. */
export type SourceGateway = {
  users(): AsyncGenerator<readonly SourceUser[]>
  tokens(): AsyncGenerator<readonly SourceToken[]>
  channels(): AsyncGenerator<readonly SourceChannel[]>
  /** Prices of the models that its channels serve; after `channels`. */
  prices(): Promise<readonly SourcePrice[]>
  aliases?(): Promise<readonly SourceAlias[]>
  /** Usage rows after the id, since the time. */
  logs?(after: string | undefined, since: number): AsyncGenerator<readonly SourceLog[]>
  /** Whether a user or token that it does not have was deleted there. Absent: always. */
  isDeletion?(kind: 'user' | 'token', sourceId: string): boolean
  /** Notes about everything that has no counterpart; after all others. */
  conclude(): Promise<void>
}
