/** An administrator sets 1 and 2, the gateway sets 3 (docs/reference/routing.md: Channel status). */
export const CHANNEL_STATUS = { enabled: 1, disabled: 2, disabledByGateway: 3 } as const

export const CHANNEL_NAME_LENGTH = 100

/** The stored headers of a channel that has none. They hold no secret, so they are not encrypted. */
export const NO_HEADERS = '{}'

/** Timeouts of `setting.timeouts`, each with its minimum and maximum (docs/reference/routing.md: Timeouts). */
export const TIMEOUTS = {
  connect_ms: [1, 600_000],
  first_byte_ms: [1, 3_600_000],
  idle_ms: [1, 3_600_000],
  // 0: none.
  total_ms: [0, 86_400_000],
} as const satisfies Record<string, readonly [min: number, max: number]>

/** A name on a loop of the mapping. A name mapped to itself is no loop. */
export function loopIn(mapping: Readonly<Record<string, string>>): string | undefined {
  const next = new Map(Object.entries(mapping).filter(([from, to]) => from !== to))
  const checked = new Set<string>()
  for (const start of next.keys()) {
    const path = new Set<string>()
    for (let at: string | undefined = start; at !== undefined && !checked.has(at); at = next.get(at)) {
      if (path.has(at)) return at
      path.add(at)
    }
    for (const name of path) checked.add(name)
  }
  return undefined
}

/** `name` with a suffix, cut to the maximum length of a channel's name. */
export function withSuffix(name: string, suffix: string): string {
  const room = Math.max(0, CHANNEL_NAME_LENGTH - [...suffix].length)
  return `${[...name].slice(0, room).join('')}${suffix}`
}
