/** What a log row is about, by the numbers of this family. */
export const LOG_TYPE = { topUp: 1, consume: 2, manage: 3, system: 4, error: 5, refund: 6, login: 7 } as const
