import type { IncomingMessage } from 'node:http'

export const SESSION_COOKIE = 'sluice_session'

/** A session is valid only for requests of the console's own pages (docs/reference/management-api.md: Session cookie). */
export function isSameOrigin({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  if (headers.origin === undefined) return true
  return URL.canParse(headers.origin) && new URL(headers.origin).host === headers.host
}
