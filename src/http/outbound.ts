import { Agent, request } from 'undici'
import { Refusal } from '../domain/errors.ts'
import { createScrub, type Scrub } from '../domain/scrub.ts'
import { JsonError } from '../wire/json.ts'
import { readJson } from '../wire/json-skim.ts'
import type { AddressGuard } from './address-guard.ts'

const CONNECT_TIMEOUT_MS = 10_000
const RESPONSE_TIMEOUT_MS = 15_000
const MAX_RESPONSE_BYTES = 8 * 1024 * 1024
const MAX_EXCERPT = 300

const upstreamError = (message: string) => new Refusal('upstream_error', message)

async function readBounded(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > MAX_RESPONSE_BYTES) throw upstreamError('The response of the provider is larger than 8 MiB.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The secrets of a request: each header value, with and without its scheme. */
const secretsOf = (headers: Readonly<Record<string, string>>) =>
  Object.values(headers).flatMap(value => [value, value.replace(/^\S+ /, '')])

/** The start of a provider's error message, with the key redacted. */
const excerpt = (bytes: Buffer, scrub: Scrub): string =>
  scrub(bytes.subarray(0, 4096).toString('utf8').replace(/\s+/g, ' ')).slice(0, MAX_EXCERPT)

/** The client for requests of the management API to providers: checked addresses, no redirects, bounded size. */
export function createOutboundClient(guard: AddressGuard) {
  const agent = new Agent({
    allowH2: false,
    headersTimeout: RESPONSE_TIMEOUT_MS,
    bodyTimeout: RESPONSE_TIMEOUT_MS,
    connect: guard.connector({ timeoutMs: CONNECT_TIMEOUT_MS }),
  })

  return {
    /** The parsed response of a GET; throws a 502 with the reason. */
    async getJson(url: string, headers: Readonly<Record<string, string>>): Promise<unknown> {
      const scrub = createScrub(secretsOf(headers))
      const reason = guard.refuseUrl(url.split('?')[0] ?? url)
      if (reason) throw upstreamError(`The address of the provider ${reason}.`)
      let status: number
      let bytes: Buffer
      try {
        const response = await request(url, {
          dispatcher: agent,
          headers: { accept: 'application/json', ...headers },
          signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
        })
        status = response.statusCode
        bytes = await readBounded(response.body)
      } catch (error) {
        if (error instanceof Refusal) throw error
        throw upstreamError(
          `The provider could not be reached: ${excerpt(Buffer.from((error as Error).message), scrub)}`,
        )
      }
      if (status !== 200)
        throw upstreamError(`The provider returned status ${status}: ${excerpt(bytes, scrub)}`)
      try {
        return (await readJson(bytes, false)).value
      } catch (error) {
        if (error instanceof JsonError) throw upstreamError(`The response of the provider ${error.message}.`)
        throw error
      }
    },
    close: () => agent.close(),
  }
}

export type OutboundClient = ReturnType<typeof createOutboundClient>
