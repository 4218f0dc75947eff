/** A part of a request that the target format does not support, and how the gateway handled it. */
export type Warning = {
  readonly field: string
  readonly message: string
  /** For content of the conversation that was left out: why it cannot be sent. Absent: the warning is about a parameter. */
  readonly lostContent?: string
}

/** Content of a request that a format cannot express, by its path in the client's request. */
export type LostContent = { readonly path: string; readonly reason: string }

const MAX_HEADER_LENGTH = 4_096

/** The value of `x-sluice-warnings`. Field names come from the client, so characters that a header cannot hold are replaced. */
export function warningsHeader(warnings: readonly Warning[]): string {
  const text = warnings.map(({ field, message }) => `${field}: ${message}`).join('; ')
  return text.replace(/[^ -~]/g, '?').slice(0, MAX_HEADER_LENGTH)
}
