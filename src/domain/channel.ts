/** 1 and 2 are set by hand, 3 by the gateway (contract 2.2). */
export const CHANNEL_STATUS = { enabled: 1, disabled: 2, disabledByGateway: 3 } as const

/** The same states, for a single key of a channel. */
export const KEY_STATUS = CHANNEL_STATUS

export const MAX_KEYS = 1_000
