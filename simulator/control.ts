import type { IncomingMessage } from 'node:http'
import { readBody } from './body.ts'
import { FAULTS, type Faults } from './faults.ts'
import type { Jobs } from './jobs.ts'
import { isObject } from './json.ts'
import { ProviderError } from './provider-error.ts'
import type { RequestLog } from './requests.ts'

/** Paths under it control the simulator. */
export const CONTROL_PREFIX = '/sim/'

type Rooms = { readonly faults: Faults; readonly requests: RequestLog; readonly jobs: Jobs }

/** Answers control requests of tests; undefined if the client disconnected. */
export async function control(
  request: IncomingMessage,
  path: string,
  { faults, requests, jobs }: Rooms,
): Promise<object | undefined> {
  if (!isLoopback(request.socket.remoteAddress)) {
    throw new ProviderError('not_local', `${path} is open to this machine only.`)
  }
  const { method = '' } = request
  if (path === '/sim/requests' && method === 'GET') return requests.report()
  if (path === '/sim/videos' && method === 'GET') return jobs.report()
  if (path === '/sim/faults' && method === 'GET') {
    return { fault: faults.current(), known: Object.keys(FAULTS) }
  }
  if (path === '/sim/faults' && method === 'POST') {
    const body = await readBody(request)
    if (body.kind !== 'read') return undefined
    faults.switchTo(decodeSwitch(body.bytes.toString('utf8')))
    return { fault: faults.current() }
  }
  if (path === '/sim/requests' || path === '/sim/videos' || path === '/sim/faults') {
    throw new ProviderError('wrong_method', `${path} does not take ${method}.`)
  }
  throw new ProviderError('unknown_path', `There is nothing at ${path}.`)
}

export function isLoopback(address: string | undefined): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address ?? '')
}

function decodeSwitch(text: string): string | null {
  let payload: unknown
  try {
    payload = JSON.parse(text)
  } catch {
    throw new ProviderError('bad_json', 'The body of the request is not valid JSON.')
  }
  const fault = isObject(payload) ? payload.fault : undefined
  if (fault === null || typeof fault === 'string') return fault
  throw new ProviderError('wrong_type', "'fault' must be the name of a fault, or null.", 'fault')
}
