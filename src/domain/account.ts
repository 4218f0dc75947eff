export type AccountKind = 'user' | 'token'

/** Identifies the account of a user or of a token. */
export type AccountId = { readonly kind: AccountKind; readonly ownerId: number }
