import type { IncomingMessage } from 'node:http'

const VERSIONED = /^\/+(?:v1|v1beta|v2|dashboard)(?=[/?]|$)/
/** Google's SDKs request preview features under this version. */
const ALPHA = /^\/+v1alpha(?=[/?]|$)/
const DOUBLED = /^\/+v1(?:beta)?(?=\/+(?:v1|v1beta|v1alpha|v2)(?:[/?]|$))/
const BARE =
  /^\/+(?=(?:audio|chat|completions|embeddings|images|messages|models|moderations|rerank|responses|videos)(?:[/?]|$))/

/** A browser that opens a page probably wants a page of the console. */
const isPage = ({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>) =>
  method === 'GET' && (headers.accept ?? '').includes('text/html')

/**
 * The relay path of a request; undefined if the request is not for the relay. Some clients append the version to their base
 * URL and others expect it there, so a doubled version is removed and a missing one added.
 */
export function relayAddress(
  request: Pick<IncomingMessage, 'method' | 'headers' | 'url'>,
): string | undefined {
  const url = (request.url ?? '/').replace(DOUBLED, '').replace(ALPHA, '/v1beta')
  if (VERSIONED.test(url)) return url
  return BARE.test(url) && !isPage(request) ? url.replace(BARE, '/v1/') : undefined
}
