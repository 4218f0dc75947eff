import type { IncomingHttpHeaders } from 'node:http'
import { hintOf } from './count.ts'

const MAX_RECORDED = 50
/** Further paths are counted together, to bound the memory. */
const PATH_LIMIT = 1_000
const OTHER_PATHS = '(other)'

const SECRET_HEADERS = new Set([
  'authorization',
  'proxy-authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'cookie',
])

/** A received request; the model is added when the body is read. */
export type RecordedRequest = {
  readonly method: string
  readonly path: string
  readonly key: string | undefined
  readonly headers: IncomingHttpHeaders
  model: string | null
  fault: string | null
}

export type RequestLog = ReturnType<typeof createRequestLog>

/** Records requests, so that a test can see where a gateway sent them. */
export function createRequestLog() {
  const counts = new Map<string, Map<string, number>>()
  const last: RecordedRequest[] = []
  let total = 0

  return {
    record(request: Pick<RecordedRequest, 'method' | 'path' | 'key' | 'headers'>): RecordedRequest {
      const { method, path, key, headers } = request
      const recorded: RecordedRequest = { method, path, key, headers, model: null, fault: null }
      last[total % MAX_RECORDED] = recorded
      total += 1
      const countedPath = counts.has(path) || counts.size < PATH_LIMIT ? path : OTHER_PATHS
      const ofPath = counts.get(countedPath) ?? new Map<string, number>()
      counts.set(countedPath, ofPath)
      const hint = hintOf(key ?? '')
      ofPath.set(hint, (ofPath.get(hint) ?? 0) + 1)
      return recorded
    },
    report() {
      const start = total > MAX_RECORDED ? total % MAX_RECORDED : 0
      return {
        total,
        counts: [...counts].flatMap(([path, ofPath]) =>
          [...ofPath].map(([keyHint, requests]) => ({ path, key_hint: keyHint, requests })),
        ),
        /** Oldest first. */
        last: [...last.slice(start), ...last.slice(0, start)].map(describe),
      }
    },
  }
}

function describe({ method, path, key, headers, model, fault }: RecordedRequest) {
  const maskedHeaders = Object.entries(headers).map(([name, value]) => {
    return [name, SECRET_HEADERS.has(name) ? mask(String(value)) : value]
  })
  return {
    method,
    path,
    key_hint: hintOf(key ?? ''),
    model,
    fault,
    headers: Object.fromEntries(maskedHeaders),
  }
}

/** The scheme, if there is one, and the last four characters. */
function mask(value: string): string {
  const [scheme = ''] = /^(bearer|basic) +/i.exec(value) ?? []
  return `${scheme}…${hintOf(value.slice(scheme.length))}`
}
