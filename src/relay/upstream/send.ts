import type { Upload } from '../../wire/multipart.ts'
import type { UpstreamBody } from '../operations/channel-request.ts'
import {
  type BufferedResponse,
  MAX_BUFFERED_BYTES,
  mayBeBilled,
  type UpstreamExchange,
  type UpstreamOutcome,
  type UpstreamRequest,
} from './exchange.ts'
import type { Upstream } from './upstream.ts'

/** The number of bodies of one request that are sent concurrently. */
const CONCURRENCY = 4

/** Sends a request to its channel. */
export function send(
  upstream: Pick<Upstream, 'exchange'>,
  { body, headers, query }: UpstreamBody,
  request: UpstreamRequest,
): UpstreamExchange {
  const whole =
    headers === undefined && query === undefined
      ? request
      : { ...request, url: withQuery(request.url, query), headers: { ...request.headers, ...headers } }
  return Array.isArray(body)
    ? exchangeEach(upstream, body, whole)
    : upstream.exchange(whole, body as Exclude<typeof body, readonly unknown[]>)
}

function withQuery(url: URL, query: UpstreamBody['query']): URL {
  if (query === undefined) return url
  const address = new URL(url)
  for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value)
  return address
}

const TOO_LONG: UpstreamOutcome = {
  kind: 'failure',
  reason: 'invalid',
  message: 'the responses together are too long',
  wasSent: true,
}

/**
 * Sends several bodies and joins their answers into one list, in the order of the bodies. The first failure fails the
 * request and aborts the others. The provider may bill those that were answered or in flight.
 */
function exchangeEach(
  upstream: Pick<Upstream, 'exchange'>,
  bodies: readonly (Buffer | Upload)[],
  request: UpstreamRequest,
): UpstreamExchange {
  const running = new Set<UpstreamExchange>()
  const answers: BufferedResponse[] = []
  // The size limit applies to all answers together.
  let room = request.maxAnswerBytes ?? MAX_BUFFERED_BYTES
  let bad: UpstreamOutcome | undefined
  let othersMayBeBilled = false
  let next = 0
  // The first bodies are sent at once, the others when a response ends.
  const later = { ...request, isEndOfTurn: false }

  const abort = () => {
    for (const exchange of running) exchange.abort()
  }

  async function sendNext(): Promise<void> {
    while (bad === undefined) {
      const index = next++
      const body = bodies[index]
      if (body === undefined) return
      const exchange = upstream.exchange(index < CONCURRENCY ? request : later, body)
      running.add(exchange)
      const outcome = await exchange.outcome
      running.delete(exchange)
      const isGood = outcome.kind === 'buffered' && outcome.status >= 200 && outcome.status < 300
      if (isGood) room -= outcome.body.length
      if (isGood && room >= 0 && bad === undefined) answers[index] = outcome
      else if (bad === undefined) {
        bad = isGood ? TOO_LONG : outcome
        abort()
        continue
      }
      othersMayBeBilled ||= isGood || (outcome.kind === 'failure' && mayBeBilled(outcome))
    }
  }

  const lanes = Array.from({ length: Math.min(CONCURRENCY, bodies.length) }, sendNext)
  return {
    outcome: Promise.all(lanes).then(() => {
      if (bad === undefined) return joinAnswers(answers)
      return othersMayBeBilled ? { ...bad, othersMayBeBilled } : bad
    }),
    abort() {
      bad ??= { kind: 'failure', reason: 'cut', message: 'aborted', wasSent: true }
      abort()
    },
  }
}

function joinAnswers(answers: readonly BufferedResponse[]): BufferedResponse {
  const pieces = answers.flatMap(({ body }, index) => [Buffer.from(index === 0 ? '[' : ','), body])
  const [first] = answers
  if (!first) throw new Error('nothing was asked')
  return { ...first, body: Buffer.concat([...pieces, Buffer.from(']')]) }
}
