export const KINDS = ['channel', 'token', 'model', 'user', 'request', 'video'] as const
export type ItemKind = (typeof KINDS)[number]

/** A recently opened search result. */
export type Recent = { readonly kind: ItemKind; readonly key: string; readonly words: string }

const MAX_ITEMS = 5

/** Per user: another user of this browser must not see them. */
const placeOf = (userId: number) => `sluice.recent.${userId}`

const isRecent = (value: unknown): value is Recent => {
  const { kind, key, words } = (value ?? {}) as Partial<Record<keyof Recent, unknown>>
  return KINDS.includes(kind as ItemKind) && typeof key === 'string' && typeof words === 'string'
}

/** Recent items, latest first, until the browser tab is closed. */
export function readRecent(userId: number): readonly Recent[] {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(placeOf(userId)) ?? '[]')
    return Array.isArray(stored) ? stored.filter(isRecent).slice(0, MAX_ITEMS) : []
  } catch {
    // Storage may be blocked, or hold invalid data under this key.
    return []
  }
}

export function saveRecent(userId: number, item: Recent): void {
  const others = readRecent(userId).filter(({ kind, key }) => kind !== item.kind || key !== item.key)
  try {
    sessionStorage.setItem(placeOf(userId), JSON.stringify([item, ...others].slice(0, MAX_ITEMS)))
  } catch {
    // Without storage there are no recent items.
  }
}
