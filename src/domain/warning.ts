/** A part of a request that the target format does not support, and how the gateway handled it. */
export type Warning = { readonly field: string; readonly message: string }

const MAX_HEADER_LENGTH = 4_096

/** The value of `x-sluice-warnings`. Field names come from the client, so characters that a header cannot hold are replaced. */
export function warningsHeader(warnings: readonly Warning[]): string {
  const text = warnings.map(({ field, message }) => `${field}: ${message}`).join('; ')
  return text.replace(/[^ -~]/g, '?').slice(0, MAX_HEADER_LENGTH)
}
