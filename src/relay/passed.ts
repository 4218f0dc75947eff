import type { RelayChannel } from './catalog.ts'
import type { Whole } from './upstream.ts'

export type PassedError = { readonly status: number; readonly message: string; readonly body: unknown }

const MAX_MESSAGE = 2_000
const HOST = /\bhttps?:\/\/[^\s"'<>]+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g

/** Keys and hosts are ours, not the client's; the rest of what a provider says helps whoever asked. */
function cleaned(text: string, channel: RelayChannel): string {
  let clean = text.slice(0, MAX_MESSAGE)
  for (const { value } of channel.keys) if (value.length >= 4) clean = clean.replaceAll(value, '[redacted]')
  return clean.replace(HOST, '[address]')
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}

const textIn = (value: unknown) => (typeof value === 'string' ? value : undefined)

/** What a provider refused, in the common shape with the provider's own status, type and code (contract 3). */
export function passedError({ status, body }: Whole, channel: RelayChannel): PassedError {
  let parsed: unknown
  try {
    parsed = JSON.parse(body.toString('utf8'))
  } catch {
    parsed = undefined
  }
  const outer = objectOf(parsed)
  const inner = objectOf(outer.error)
  const told =
    textIn(inner.message) ??
    textIn(outer.message) ??
    textIn(outer.error) ??
    textIn(outer.detail) ??
    `the provider answered ${status}`
  const message = cleaned(told, channel)
  const code = inner.code ?? outer.code ?? null
  return {
    status,
    message,
    body: {
      error: {
        message,
        type: textIn(inner.type) ?? textIn(outer.type) ?? 'invalid_request_error',
        param: textIn(inner.param) ?? null,
        code: typeof code === 'string' || typeof code === 'number' ? code : null,
      },
    },
  }
}
