import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../../domain/errors.ts'
import type { RelayIncoming } from '../../http/relay-exchange.ts'

/** The `sec-fetch-mode` of requests that no script made: address bar, link, form, frame, image, script tag. */
const UNSCRIPTED_MODES: ReadonlySet<string> = new Set(['navigate', 'nested-navigate', 'no-cors'])
/** The destinations that render the response as a document. */
const DOCUMENT_DESTINATIONS: ReadonlySet<string> = new Set([
  'document',
  'embed',
  'fencedframe',
  'frame',
  'iframe',
  'object',
])

/**
 * Content types that any site may send without a CORS preflight: from a form, or from a script as text or an untyped
 * blob.
 */
const TEXT_FORM = /^\s*(?:text\/plain|application\/x-www-form-urlencoded)\b/i
const MULTIPART_FORM = /^\s*multipart\/form-data\b/i

const isFromElsewhere = ({ 'sec-fetch-site': site, origin, host }: IncomingHttpHeaders): boolean => {
  if (site !== undefined) return site === 'cross-site' || site === 'same-site'
  return origin !== undefined && URL.parse(origin)?.host !== host
}

/**
 * Whether this is a form of another site. A script that uploads a multipart form is not: it is in CORS mode, or, in
 * browsers without these headers, does not accept HTML.
 */
function isForeignForm({ method, headers }: RelayIncoming): boolean {
  if (method !== 'POST' || !isFromElsewhere(headers)) return false
  const { 'content-type': type, 'sec-fetch-mode': mode, accept = '' } = headers
  if (type === undefined || TEXT_FORM.test(type)) return true
  return MULTIPART_FORM.test(type) && mode === undefined && accept.includes('text/html')
}

/**
 * Refuses browser requests that no script of the caller made: navigations, tags of a page, and forms of other sites. They
 * cannot carry an API key in a header, and the browser would render the response on the origin of the console. Other
 * clients send none of these headers.
 */
export function mustNotBeCrossSite(request: RelayIncoming): void {
  const {
    'sec-fetch-mode': mode,
    'sec-fetch-dest': destination,
    'sec-fetch-site': site,
    origin,
  } = request.headers
  if (mode === undefined && origin === undefined && destination === undefined && site === undefined) return
  const isUnscripted =
    (mode !== undefined && UNSCRIPTED_MODES.has(mode as string)) ||
    (destination !== undefined && DOCUMENT_DESTINATIONS.has(destination as string))
  if (isUnscripted || isForeignForm(request))
    throw new Refusal(
      'cross_site_refused',
      'The API does not answer page navigations, tags of web pages, or forms of other sites. Call it with fetch or an SDK.',
    )
}
