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

/** A text for a header. Field names come from the client, so characters that a header cannot hold are replaced. */
export const headerText = (text: string): string => text.replace(/[^ -~]/g, '?').slice(0, MAX_HEADER_LENGTH)

/** A value of `x-sluice-warnings`. */
export const warningsHeader = (warnings: readonly Warning[]): string =>
  headerText(warnings.map(({ field, message }) => `${field}: ${message}`).join('; '))
