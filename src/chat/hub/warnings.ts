import type { Warning } from '../../domain/warning.ts'
import type { Extras } from './hub.ts'

/** Collects the parts of a request that an encoder cannot express. */
export type Warnings = {
  /** `field`: the path in the hub, such as `messages[2].content[0]` or `seed`. */
  lost(field: string, message: string): void
  /** The same for a field that the format lacks; `what` describes it if the name does not. */
  unsupported(field: string, what?: string): void
  /** Fields of an object that only other formats have. `path` ends with a dot, or is empty for the request itself. */
  foreign(path: string, source: { readonly extras?: Extras }): void
  list(): readonly Warning[]
}

/** The warnings are sent in a header, so only the first ones are reported. */
const MAX_WARNINGS = 32

/** `home`: the formats whose extras can be sent. */
export function createWarnings(...home: readonly string[]): Warnings {
  const warnings: Warning[] = []
  const lost = (field: string, message: string) => {
    const isReported = warnings.some(each => each.field === field && each.message === message)
    if (!isReported && warnings.length < MAX_WARNINGS) warnings.push({ field, message })
  }
  const unsupported = (field: string, what?: string) =>
    lost(field, `${what === undefined ? '' : `${what} `}has no counterpart and was left out`)
  return {
    lost,
    unsupported,
    foreign(path, { extras = {} }) {
      for (const [format, fields] of Object.entries(extras)) {
        if (home.includes(format)) continue
        for (const [name, value] of Object.entries(fields)) {
          // Clients send null for fields that they do not set.
          if (value !== null) unsupported(`${path}${name}`)
        }
      }
    },
    list: () => warnings,
  }
}
