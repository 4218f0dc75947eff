/** The owner sets enabled and disabled; expired and exhausted are derived (docs/reference/money.md: Token status). */
export const TOKEN_STATUS = { enabled: 1, disabled: 2, expired: 3, exhausted: 4 } as const

export type TokenFacts = {
  readonly status: number
  readonly expired_time: number
  readonly unlimited: number
  readonly credited: number
  readonly posted: number
}

export const NEVER = -1

/** The token id of requests by a signed-in user without a token: only the user's balance limits them. */
export const NO_TOKEN = 0
/** The token name of such requests. */
export const NO_TOKEN_NAME = 'playground'

export const isExpired = (token: Pick<TokenFacts, 'expired_time'>, now: number) =>
  token.expired_time !== NEVER && token.expired_time <= now

export function tokenStatus(token: TokenFacts, now: number): number {
  if (token.status === TOKEN_STATUS.disabled) return TOKEN_STATUS.disabled
  if (isExpired(token, now)) return TOKEN_STATUS.expired
  if (!token.unlimited && token.credited - token.posted < 1) return TOKEN_STATUS.exhausted
  return TOKEN_STATUS.enabled
}

/** The owner is notified when this many tenths of the quota are used. */
export const LOW_TENTHS = 8

export const isLow = ({
  unlimited,
  credited,
  posted,
}: Pick<TokenFacts, 'unlimited' | 'credited' | 'posted'>) =>
  !unlimited && credited > 0 && posted * 10 >= credited * LOW_TENTHS
