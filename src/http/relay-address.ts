import type { IncomingMessage } from 'node:http'

const VERSIONED = /^\/+(?:v1|v1beta|v2|dashboard)(?=[/?]|$)/
/** Google's SDKs ask for what is new under a name of its own. */
const ALPHA = /^\/+v1alpha(?=[/?]|$)/
const DOUBLED = /^\/+v1(?:beta)?(?=\/+(?:v1|v1beta|v1alpha|v2)(?:[/?]|$))/
const BARE =
  /^\/+(?=(?:audio|chat|completions|embeddings|images|messages|models|moderations|rerank|responses|videos)(?:[/?]|$))/

/** Somebody opens a page in a browser, and may mean one of the console's. */
const isPage = ({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>) =>
  method === 'GET' && (headers.accept ?? '').includes('text/html')

/**
 * Where the relay is asked, undefined for whoever does not mean it. Some clients add the version to the address that they
 * are given, others expect it there, and people know neither: one too many is taken off, a missing one put in front.
 */
export function relayAddress(
  request: Pick<IncomingMessage, 'method' | 'headers' | 'url'>,
): string | undefined {
  const url = (request.url ?? '/').replace(DOUBLED, '').replace(ALPHA, '/v1beta')
  if (VERSIONED.test(url)) return url
  return BARE.test(url) && !isPage(request) ? url.replace(BARE, '/v1/') : undefined
}
