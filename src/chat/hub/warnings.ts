import type { Warning } from '../../domain/warning.ts'
import type { Extras } from './hub.ts'

/** Gathers what an encoder cannot carry. */
export type Warnings = {
  /** `field` in the hub's words: `messages[2].content[0]`, `seed`. */
  lost(field: string, message: string): void
  /** The same of what the format has no word for; `what` where the field does not tell. */
  unsayable(field: string, what?: string): void
  /** Fields of a thing that only other formats know. `path` ends with a dot, or is empty for the request itself. */
  foreign(path: string, thing: { readonly extras?: Extras }): void
  list(): readonly Warning[]
}

/** No header holds more; a request that loses so much is told the first of it. */
const MAX_WARNINGS = 32

/** `home`: the formats whose extras are understood. */
export function createWarnings(...home: readonly string[]): Warnings {
  const warnings: Warning[] = []
  const lost = (field: string, message: string) => {
    const isTold = warnings.some(each => each.field === field && each.message === message)
    if (!isTold && warnings.length < MAX_WARNINGS) warnings.push({ field, message })
  }
  const unsayable = (field: string, what?: string) =>
    lost(field, `${what === undefined ? '' : `${what} `}has no counterpart and was left out`)
  return {
    lost,
    unsayable,
    foreign(path, { extras = {} }) {
      for (const [format, fields] of Object.entries(extras)) {
        if (home.includes(format)) continue
        for (const [name, value] of Object.entries(fields)) {
          // Clients spell out what they do not say as null.
          if (value !== null) unsayable(`${path}${name}`)
        }
      }
    },
    list: () => warnings,
  }
}
