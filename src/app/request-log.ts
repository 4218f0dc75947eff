import type { Logger } from 'pino'
import { usdText } from '../domain/money.ts'
import type { RelayDeps } from '../relay/request.ts'
import { createInfoLines, scrub } from './log.ts'
import { statusOf } from './metrics.ts'

/** Clients choose the path and the model: lines that wait for shipping must stay small. */
const MAX_TEXT = 255

type RequestLine = {
  readonly request_id: string
  readonly method: string | undefined
  readonly path: string
  readonly status: number
  readonly code: unknown
  readonly ms: number
  readonly first_ms: unknown
  readonly user_id: number | undefined
  readonly token_id: number | undefined
  readonly model: string | undefined
  readonly channel_id: number | undefined
  readonly prompt_tokens: number | undefined
  readonly completion_tokens: number | undefined
  readonly cost: string | undefined
}

const MAX_CACHED = 1_000

function pathOf(url: string): string {
  const query = url.indexOf('?')
  return query === -1 ? url : url.slice(0, query)
}

/** The JSON of a value without credentials. Paths and models repeat, so each is serialized once. */
function createTexts(): (value: unknown) => string {
  const cache = new Map<unknown, string>()
  return value => {
    const cached = cache.get(value)
    if (cached !== undefined) return cached
    if (cache.size >= MAX_CACHED) cache.clear()
    const text = scrub(JSON.stringify(value))
    cache.set(value, text)
    return text
  }
}

/** A text of these fields, which is the same for most requests: the last one is kept. */
function keptText<const Name extends keyof RequestLine>(
  names: readonly Name[],
  textOf: (line: Pick<RequestLine, Name>) => string,
): (line: RequestLine) => string {
  let last: RequestLine | undefined
  let text = ''
  return line => {
    const previous = last
    if (previous === undefined || names.some(name => previous[name] !== line[name])) {
      last = line
      // A copy: a concatenated text is slower to read.
      text = Buffer.from(textOf(line)).toString()
    }
    return text
  }
}

/**
 * The same as `JSON.stringify` in a quarter of its time (0.7 instead of 2.7 µs with the redaction). Few parts, because V8
 * allocates an object for each part of a concatenated text.
 */
function createLineSerializer(): (line: RequestLine) => string {
  const textOf = createTexts()
  const field = (name: string, value: unknown) => (value === undefined ? '' : `,"${name}":${textOf(value)}`)
  const figure = (name: string, value: unknown) => (value === undefined ? '' : `,"${name}":${value}`)
  const outcome = keptText(
    ['method', 'path', 'status', 'code'],
    ({ method, path, status, code }) =>
      `"${field('method', method)}${field('path', path)},"status":${status}${field('code', code)},"ms":`,
  )
  const parties = keptText(
    ['user_id', 'token_id', 'model', 'channel_id'],
    ({ user_id, token_id, model, channel_id }) =>
      `${figure('user_id', user_id)}${figure('token_id', token_id)}${field('model', model)}` +
      `${figure('channel_id', channel_id)}`,
  )
  return line =>
    `"request_id":"${line.request_id}${outcome(line)}${line.ms}${figure('first_ms', line.first_ms)}${parties(line)}` +
    `${figure('prompt_tokens', line.prompt_tokens)}${figure('completion_tokens', line.completion_tokens)}` +
    `${line.cost === undefined ? '' : `,"cost":"${line.cost}"`}`
}

/** Writes a line for each request of the relay API, or for a share of them. `ship` gets the same line. */
export function createRequestLog(
  log: Logger,
  shareLogged: () => number,
  ship?: (line: unknown) => void,
): RelayDeps['onRequestEnd'] {
  const writeLine = createInfoLines(log, createLineSerializer())
  return (report, { method, url = '/' }, response) => {
    const share = shareLogged()
    if (share < 1 && Math.random() >= share) return
    const isLogged = log.isLevelEnabled('info')
    if (!isLogged && ship === undefined) return
    const { requestId, startedMs, caller, work, settled, code } = report
    const usage = settled?.log
    const other = usage?.other
    const line: RequestLine = {
      request_id: requestId,
      method,
      path: pathOf(url).slice(0, MAX_TEXT),
      status: statusOf(response),
      code: code ?? other?.error_code,
      ms: Date.now() - startedMs,
      first_ms: other?.frt,
      user_id: caller?.userId,
      token_id: caller?.tokenId,
      model: work?.model.slice(0, MAX_TEXT),
      channel_id: settled?.channelId,
      prompt_tokens: usage?.promptTokens,
      completion_tokens: usage?.completionTokens,
      cost: settled && usdText(settled.paid),
    }
    if (isLogged) writeLine(line)
    ship?.({ time: new Date().toISOString(), ...line })
  }
}
