export type JsonObject = { readonly [name: string]: unknown }

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A string, or nothing: wire values of another type count as absent. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
