import { createHash, createHmac } from 'node:crypto'
import type { Unsigned } from './provider.ts'

export type VolcengineKey = { readonly accessKeyId: string; readonly secretAccessKey: string }

const digest = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')
const hmac = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest()

/** Percent-encodes everything but letters, digits and `-_.~`. */
const escaped = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, sign => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

function queryOf(params: URLSearchParams): string {
  const pairs = [...params].map(([name, value]) => `${escaped(name)}=${escaped(value)}`)
  return pairs.sort().join('&')
}

/** The signature headers of a request to Volcengine: AWS Signature 4 with other names and another root key. */
export async function signVolcengine(
  { accessKeyId, secretAccessKey }: VolcengineKey,
  { service, region }: { readonly service: string; readonly region: string },
  { method, url, headers, body, at }: Unsigned,
): Promise<Readonly<Record<string, string>>> {
  const time = at.toISOString().replace(/[-:]|\.\d+/g, '')
  const day = time.slice(0, 8)
  const hash = digest(body)
  const signed: readonly (readonly [string, string])[] = [
    ['content-type', headers['content-type'] ?? 'application/json'],
    ['host', url.host],
    ['x-content-sha256', hash],
    ['x-date', time],
  ]
  const names = signed.map(([name]) => name).join(';')
  const lines = signed.map(([name, value]) => `${name}:${value}\n`).join('')
  const request = [method, url.pathname, queryOf(url.searchParams), lines, names, hash].join('\n')
  const scope = `${day}/${region}/${service}/request`
  const root = [day, region, service, 'request'].reduce<Buffer | string>(hmac, secretAccessKey)
  const signature = hmac(root, ['HMAC-SHA256', time, scope, digest(request)].join('\n')).toString('hex')
  return {
    'content-type': headers['content-type'] ?? 'application/json',
    'x-content-sha256': hash,
    'x-date': time,
    authorization: `HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
  }
}
