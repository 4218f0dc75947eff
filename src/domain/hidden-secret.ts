import { isObject, type JsonObject } from './json-object.ts'
import { isMaskedValue, maskedForm } from './secret-name.ts'

/** Replaces a secret in exported files and in revisions: unlike a masked value, it shows no character of the secret. */
export const HIDDEN = '…'

/** The same object with all secrets hidden, at any depth. */
export function hideSecrets(object: JsonObject): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => {
      if (isObject(value)) return [name, hideSecrets(value)]
      return [name, isMaskedValue(name, value) ? HIDDEN : value]
    }),
  )
}

export type HiddenReading = {
  /** With the masked form of each stored secret in place of a hidden one, as the API accepts it. */
  readonly object: Record<string, unknown>
  /** The paths of hidden secrets that are not stored. They are left out. */
  readonly missing: readonly string[]
}

/** Replaces hidden secrets by the masked form of the stored ones. */
export function maskHidden(object: JsonObject, stored: unknown, path: string): HiddenReading {
  const storedObject = isObject(stored) ? stored : {}
  const missing: string[] = []
  const result: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(object)) {
    const before = Object.hasOwn(storedObject, name) ? storedObject[name] : undefined
    const at = `${path}.${name}`
    if (isObject(value)) {
      const inner = maskHidden(value, before, at)
      result[name] = inner.object
      missing.push(...inner.missing)
    } else if (value !== HIDDEN) result[name] = value
    else if (isMaskedValue(name, before)) result[name] = maskedForm(name, before)
    else missing.push(at)
  }
  return { object: result, missing }
}
