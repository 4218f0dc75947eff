/** The type of a log row, with the numbers that existing clients know. */
export const LOG_TYPE = { topUp: 1, consume: 2, manage: 3, system: 4, error: 5, refund: 6, login: 7 } as const
