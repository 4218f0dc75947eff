import type { RequestListener } from 'node:http'
import { Refusal } from '../domain/errors.ts'
import { relayError } from '../http/errors.ts'
import { newRequestId } from '../http/request-id.ts'

/** Balances in the form of the common billing endpoints are kept by the management API. */
const BILLING = /^\/+(v1\/+)?dashboard\/+billing\//

/** `/v1`: what it does not offer is a 404 in the relay's own shape, never a page. */
export function createRelay({ manage }: { manage: RequestListener }): RequestListener {
  return (request, response) => {
    if (BILLING.test(request.url ?? '')) return manage(request, response)
    const path = (request.url ?? '').split('?')[0]
    const { status, body } = relayError(
      new Refusal('not_found', `nothing lives at ${request.method} ${path}`),
    )
    response.writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': newRequestId(Date.now()),
      'access-control-allow-origin': '*',
    })
    response.end(JSON.stringify(body))
  }
}
