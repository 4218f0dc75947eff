import type { Agent } from 'undici'
import { Refusal } from '../domain/errors.ts'
import { createScrub, type Scrub } from '../domain/scrub.ts'
import { JsonError } from '../wire/json.ts'
import { readJson } from '../wire/json-skim.ts'
import type { ChannelNetwork } from './channel-network.ts'
import type { Network } from './network.ts'

const CONNECT_TIMEOUT_MS = 10_000
const RESPONSE_TIMEOUT_MS = 15_000
const MAX_RESPONSE_BYTES = 8 * 1024 * 1024
const MAX_EXCERPT = 300
/** Of the answer to a POST, only the start is read. */
const MAX_ANSWER_BYTES = 16 * 1024
/** The longest wait that a receiver may ask for. */
const MAX_RETRY_AFTER_S = 3_600

/** Loaded on demand: relay requests do not use it, and it is a tenth of the code. */
const loadUndici = () => import('undici')

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

async function readStart(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    size += chunk.length
    // Leaving the loop closes the connection.
    if (size >= MAX_ANSWER_BYTES) break
  }
  return Buffer.concat(chunks).subarray(0, MAX_ANSWER_BYTES)
}

function retryAfterOf(header: string | string[] | undefined): number | undefined {
  const seconds = typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) : undefined
  return seconds === undefined ? undefined : Math.min(seconds, MAX_RETRY_AFTER_S)
}

type OutboundPost = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Removed from error messages. */
  readonly secrets: readonly string[]
}

export type PostAnswer = {
  readonly status: number
  /** The start of the answer, without secrets. */
  readonly text: string
  readonly retryAfterS: number | undefined
}

/** The client for requests of the management API to providers: checked addresses, no redirects, bounded size. */
export function createOutboundClient(network: Pick<Network, 'connector' | 'refuseUrl'>) {
  async function createAgent(channel?: ChannelNetwork): Promise<Agent> {
    const undici = await loadUndici()
    return new undici.Agent({
      allowH2: false,
      headersTimeout: RESPONSE_TIMEOUT_MS,
      bodyTimeout: RESPONSE_TIMEOUT_MS,
      connect: network.connector({ timeoutMs: CONNECT_TIMEOUT_MS, channel }),
    })
  }
  let shared: Promise<Agent> | undefined
  const sharedAgent = () => {
    shared ??= createAgent()
    return shared
  }

  async function getWith(
    dispatcher: Agent,
    url: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<unknown> {
    const scrub = createScrub(secretsOf(headers))
    const reason = network.refuseUrl(url.split('?')[0] ?? url)
    if (reason) throw upstreamError(`The address of the provider ${reason}.`)
    let status: number
    let bytes: Buffer
    try {
      const { request } = await loadUndici()
      const response = await request(url, {
        dispatcher,
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
  }

  return {
    /** The parsed response of a GET, over the network of a channel; throws a 502 with the reason. */
    async getJson(
      url: string,
      headers: Readonly<Record<string, string>>,
      channel?: ChannelNetwork,
    ): Promise<unknown> {
      if (channel === undefined) return getWith(await sharedAgent(), url, headers)
      // Such requests are rare, so their connections are not kept.
      const own = await createAgent(channel)
      try {
        return await getWith(own, url, headers)
      } finally {
        await own.close()
      }
    },
    /** Why a URL must not be connected to. Its query may contain a key and is not part of the reason. */
    refuseUrl: (url: string) => network.refuseUrl(url.split('?')[0] ?? url),
    /** Posts a body once; redirects are not followed. Throws a 502 with the reason if no answer arrives. */
    async post({ url, headers, body, secrets }: OutboundPost): Promise<PostAnswer> {
      const scrub = createScrub([...secrets, url])
      const reason = network.refuseUrl(url.split('?')[0] ?? url)
      if (reason) throw upstreamError(`The address ${reason}.`)
      try {
        const { request } = await loadUndici()
        const response = await request(url, {
          method: 'POST',
          dispatcher: await sharedAgent(),
          headers: { 'user-agent': 'sluice', ...headers },
          body,
          signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
        })
        const text = (await readStart(response.body)).toString('utf8')
        return {
          status: response.statusCode,
          text: scrub(text),
          retryAfterS: retryAfterOf(response.headers['retry-after']),
        }
      } catch (error) {
        throw upstreamError(
          `The address could not be reached: ${excerpt(Buffer.from((error as Error).message), scrub)}`,
        )
      }
    },
    close: async (): Promise<void> => (await shared)?.close(),
  }
}

export type OutboundClient = ReturnType<typeof createOutboundClient>
