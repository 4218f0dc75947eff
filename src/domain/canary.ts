/**
 * A canary tries a change on a part of the requests: of a channel or alias, or of a price, which is only computed and never
 * charged (docs/reference/canary.md: Kinds).
 */
export const CANARY_KINDS = ['channel', 'alias', 'price'] as const
export type CanaryKind = (typeof CANARY_KINDS)[number]

export const CANARY_STATES = ['running', 'paused', 'promoted', 'dropped'] as const
export type CanaryState = (typeof CANARY_STATES)[number]

/** How requests are divided: each by itself, or all requests of a token together. */
export const CANARY_SPLITS = ['request', 'token'] as const
export type CanarySplit = (typeof CANARY_SPLITS)[number]

/** `canary`: the request was served with the change. `baseline`: it could have been, and was not. */
export type CanarySide = 'canary' | 'baseline'

/** The part of a request in a canary, as its usage row has it. A round ends when the share or the tokens change. */
export type CanaryMark = { readonly id: number; readonly round: number; readonly side: CanarySide }

/** The cost of a request under a shadow price, in USD, as its usage row has it. */
export type ShadowCost = { readonly id: number; readonly cost: string }

/** Shares are tenths of a percent. */
export const SHARE_STEPS = 1_000

/** Canaries of channels and aliases that are running or paused. Every one divides the routes of its models. */
export const MAX_OPEN_CANARIES = 8
/** Shadow prices that are running or paused. */
export const MAX_SHADOW_PRICES = 100
export const MAX_CANARY_TOKENS = 1_000

/** The fields of a channel that a canary may change. Its keys, type and limits stay the same. */
export const CHANNEL_CANARY_FIELDS = [
  'models',
  'model_mapping',
  'base_url',
  'priority',
  'weight',
  'status',
  'param_override',
  'header_override',
  'status_code_mapping',
  'setting',
  'openai_organization',
] as const

export const ALIAS_CANARY_FIELDS = ['target', 'channel_ids', 'status'] as const

const FNV_OFFSET = 0x811c9dc5
const FNV_PRIME = 0x01000193

/**
 * The place of a request or token in a canary, from 0 to 999: it is in the canary if the place is below the share in tenths
 * of a percent. The same in every process and on every machine: FNV-1a with the finalizer of MurmurHash3, modulo 1,000.
 */
export function canaryPlace(canaryId: number, key: string): number {
  let hash = FNV_OFFSET
  const text = `${canaryId} ${key}`
  for (let index = 0; index < text.length; index += 1)
    hash = Math.imul(hash ^ text.charCodeAt(index), FNV_PRIME)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) % SHARE_STEPS
}
