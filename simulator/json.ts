export type WireObject = { readonly [name: string]: unknown }

export function isObject(value: unknown): value is WireObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A string; values of another type count as absent. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** The `model` of a body that may not even be JSON. */
export function modelIn(body: string): string | null {
  try {
    const value: unknown = JSON.parse(body)
    return (isObject(value) ? textOf(value.model) : undefined) ?? null
  } catch {
    return null
  }
}

const PEEK_LENGTH = 512

/** The `model` in the first bytes of an incomplete body; empty if it is not there. */
export function peekModel(start: Buffer): string {
  const at = start.indexOf('"model"')
  if (at === -1) return ''
  const text = start.toString('latin1', at, at + PEEK_LENGTH)
  return /^"model"\s*:\s*"([^"\\]*)"/.exec(text)?.[1] ?? ''
}
