import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Refusal } from '../../domain/errors.ts'

/** What browsers say of a request that no script made: the address bar, a link, a form, a frame, an image, a script tag. */
const UNSCRIPTED_MODES: ReadonlySet<string> = new Set(['navigate', 'nested-navigate', 'no-cors'])
/** Where the answer would become a document. */
const DOCUMENT_DESTINATIONS: ReadonlySet<string> = new Set([
  'document',
  'embed',
  'fencedframe',
  'frame',
  'iframe',
  'object',
])

/** Types that a form of any site may send without asking first, or a script as a text or a blob without a type. */
const TEXT_FORM = /^\s*(?:text\/plain|application\/x-www-form-urlencoded)\b/i
const MULTIPART_FORM = /^\s*multipart\/form-data\b/i

const isFromElsewhere = ({ 'sec-fetch-site': site, origin, host }: IncomingHttpHeaders): boolean => {
  if (site !== undefined) return site === 'cross-site' || site === 'same-site'
  return origin !== undefined && URL.parse(origin)?.host !== host
}

/**
 * Whether this is a form of another site. A script that sends its files as a multipart form is none: it says that it is
 * in CORS mode, or, in browsers that say nothing, does not accept a page.
 */
function isForeignForm({ method, headers }: IncomingMessage): boolean {
  if (method !== 'POST' || !isFromElsewhere(headers)) return false
  const { 'content-type': type, 'sec-fetch-mode': mode, accept = '' } = headers
  if (type === undefined || TEXT_FORM.test(type)) return true
  return MULTIPART_FORM.test(type) && mode === undefined && accept.includes('text/html')
}

/**
 * Refuses what a browser sends without a script of the caller's own: navigations, tags of a page, and forms of other
 * sites. They carry no header of the caller's choice, so none of them is a client of the API, and an answer to them would
 * be rendered on the origin of the console. Requests of no browser have none of these headers.
 */
export function mustNotBeCrossSite(request: IncomingMessage): void {
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
