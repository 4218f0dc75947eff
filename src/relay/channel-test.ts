import { invalidField, Refusal } from '../domain/errors.ts'
import { NO_KEY, type RoutedKey, sentModel } from '../routing/table.ts'
import { consumeStream } from './answer/consume-stream.ts'
import { upstreamError } from './answer/upstream-error.ts'
import { type Catalog, createAddressBook, formatOn, type RelayChannel, signing } from './catalog/catalog.ts'
import { createIdsAndClock } from './ids-and-clock.ts'
import type { ChannelRequest } from './operations/channel-request.ts'
import type { ReadContext } from './operations/operation.ts'
import { questionOf } from './test-questions.ts'
import { errorIn } from './upstream/failure.ts'
import type { KeyExchange } from './upstream/key-exchange.ts'
import { encodeOutgoing } from './upstream/outgoing.ts'
import { send } from './upstream/send.ts'
import type { Upstream, UpstreamOutcome } from './upstream/upstream.ts'

export type TestOptions = {
  readonly model?: string | undefined
  readonly isStream?: boolean | undefined
  readonly key?: RoutedKey
  /** Which of the channel's keys is tried; without it the first that is on. */
  readonly keyIndex?: number | undefined
}

/** What a test request found out. It charges nobody. */
export type TestResult = {
  readonly id: number
  readonly name: string
  readonly model: string
  readonly isGood: boolean
  readonly latencyMs: number
  readonly firstTokenMs: number | null
  readonly status: number | null
  readonly error: string | null
  readonly key: RoutedKey
}

const FALLBACK_MODEL = 'gpt-4o-mini'

type Judging = {
  readonly channel: RelayChannel
  readonly outgoing: ChannelRequest
  readonly isStream: boolean
  readonly format: string
  readonly startedMs: number
}

function keyToTest({ keys }: RelayChannel, index: number | undefined): RoutedKey {
  if (index === undefined) return keys.find(({ status }) => status === 1) ?? keys[0] ?? NO_KEY
  const named = keys.find(key => key.index === index)
  if (!named) throw invalidField('key', 'is not the index of a key of this channel')
  return named
}

/** Asks a channel something small, the way a request would be asked: mapping, overrides, address and key included. */
export function createChannelTest({
  catalog,
  upstream,
  keys,
  nowMs,
}: {
  catalog: Catalog
  upstream: Upstream
  keys: KeyExchange
  nowMs(): number
}) {
  const addressOf = createAddressBook()
  const desk: ReadContext = {
    settings: catalog.settings,
    isServed: model => catalog.table().resolve(model) !== undefined,
    ambience: createIdsAndClock(nowMs),
  }

  async function judge(
    outcome: UpstreamOutcome,
    { channel, outgoing, isStream, startedMs, format }: Judging,
  ) {
    if (outcome.kind === 'failure')
      return { status: null, error: `${outcome.reason}: ${outcome.message}`, firstTokenMs: null }
    if (outcome.kind === 'stream') {
      const firstTokenMs = nowMs() - startedMs
      const error = await consumeStream(outcome.flow, outgoing.meter())
      return { status: outcome.status, error: error ?? null, firstTokenMs }
    }
    const { status } = outcome
    if (status < 200 || status >= 300)
      return {
        status,
        error: upstreamError(outcome, channel, errorIn(outcome, format)).message,
        firstTokenMs: null,
      }
    if (isStream) return { status, error: 'the answer is no stream of events', firstTokenMs: null }
    const { fault } = await outgoing.readWhole(outcome)
    return { status, error: fault ?? null, firstTokenMs: null }
  }

  return async function testChannel(
    id: number,
    { model: asked, isStream = false, key, keyIndex }: TestOptions,
  ): Promise<TestResult> {
    const channel = catalog.table().channel(id)
    if (!channel) throw new Refusal('not_found', 'there is no such channel')
    const model = asked ?? (channel.testModel || channel.models[0] || FALLBACK_MODEL)
    const used = key ?? keyToTest(channel, keyIndex)
    const sent = sentModel(channel, model)
    const { spec, work } = await questionOf(model, sent, { isStream, desk })
    const named = { id, name: channel.name, model, key: used }
    const format = formatOn(channel, spec, sent)
    const address =
      format &&
      addressOf(channel, {
        operation: spec.operation,
        format,
        isStream: work.isStream,
        model: sent,
        key: used,
        values: work.placeholders?.(channel),
      })
    const failed = (error: string) => ({
      ...named,
      isGood: false,
      latencyMs: 0,
      firstTokenMs: null,
      status: null,
      error,
    })
    if (!address) return failed('the provider does not offer this')
    const headers = {
      'content-type': 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'sluice',
      ...address.headers,
    }
    const ready = encodeOutgoing(
      { channel, key: used, asked: model, sent, client: {} },
      { spec, desk },
      headers,
      await work.requestFor(channel, sent),
    )
    if ('isRetryable' in ready) return failed(ready.message)
    const startedMs = nowMs()
    const exchange = send(upstream, ready.outgoing, {
      url: address.url,
      headers: ready.headers,
      timeouts: channel.timeouts,
      isStream: work.isStream,
      ...signing(address, { nowMs, keys }),
      ...(work.passes && { passes: work.passes }),
    })
    const found = await judge(await exchange.outcome, {
      channel,
      outgoing: ready.outgoing,
      isStream: work.isStream,
      format,
      startedMs,
    })
    exchange.abort()
    const error = found.error === null ? null : channel.secrets.scrub(found.error)
    return { ...named, ...found, error, isGood: error === null, latencyMs: nowMs() - startedMs }
  }
}
