export const KINDS = ['channel', 'token', 'model', 'user', 'request', 'video'] as const
export type Kind = (typeof KINDS)[number]

/** Something with a page of its own that was looked for by name. */
export type Recent = { readonly kind: Kind; readonly key: string; readonly words: string }

const MOST = 5

/** Of one person: the next one to sign in here must not see them. */
const placeOf = (userId: number) => `sluice.recent.${userId}`

const isRecent = (value: unknown): value is Recent => {
  const { kind, key, words } = (value ?? {}) as Partial<Record<keyof Recent, unknown>>
  return KINDS.includes(kind as Kind) && typeof key === 'string' && typeof words === 'string'
}

/** What was found last, the newest first, for as long as the browser's tab is open. */
export function readRecent(userId: number): readonly Recent[] {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(placeOf(userId)) ?? '[]')
    return Array.isArray(kept) ? kept.filter(isRecent).slice(0, MOST) : []
  } catch {
    // Storage may be closed to us, or hold something else under our name.
    return []
  }
}

export function keepRecent(userId: number, found: Recent): void {
  const others = readRecent(userId).filter(({ kind, key }) => kind !== found.kind || key !== found.key)
  try {
    sessionStorage.setItem(placeOf(userId), JSON.stringify([found, ...others].slice(0, MOST)))
  } catch {
    // What is not kept is looked for again.
  }
}
