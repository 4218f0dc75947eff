export const KINDS = ['channel', 'token', 'model', 'user', 'request', 'video'] as const
export type ItemKind = (typeof KINDS)[number]

/** Something with a page of its own that was looked for by name. */
export type Recent = { readonly kind: ItemKind; readonly key: string; readonly words: string }

const MAX_ITEMS = 5

/** Of one person: the next one to sign in here must not see them. */
const placeOf = (userId: number) => `sluice.recent.${userId}`

const isRecent = (value: unknown): value is Recent => {
  const { kind, key, words } = (value ?? {}) as Partial<Record<keyof Recent, unknown>>
  return KINDS.includes(kind as ItemKind) && typeof key === 'string' && typeof words === 'string'
}

/** What was found last, the newest first, for as long as the browser's tab is open. */
export function readRecent(userId: number): readonly Recent[] {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(placeOf(userId)) ?? '[]')
    return Array.isArray(stored) ? stored.filter(isRecent).slice(0, MAX_ITEMS) : []
  } catch {
    // Storage may be closed to us, or hold something else under our name.
    return []
  }
}

export function saveRecent(userId: number, item: Recent): void {
  const others = readRecent(userId).filter(({ kind, key }) => kind !== item.kind || key !== item.key)
  try {
    sessionStorage.setItem(placeOf(userId), JSON.stringify([item, ...others].slice(0, MAX_ITEMS)))
  } catch {
    // What is not kept is looked for again.
  }
}
