/** Something of a request that the format cannot carry, and what became of it. */
export type Warning = { readonly field: string; readonly message: string }

const MAX_HEADER_LENGTH = 4_096

/** The value of `x-sluice-warnings`: what a header may hold of it, fields being the client's own words. */
export function warningsHeader(warnings: readonly Warning[]): string {
  const text = warnings.map(({ field, message }) => `${field}: ${message}`).join('; ')
  return text.replace(/[^ -~]/g, '?').slice(0, MAX_HEADER_LENGTH)
}
