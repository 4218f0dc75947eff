import type { ChannelTestResult } from '../domain/channel-test.ts'
import { invalidField, Refusal } from '../domain/errors.ts'
import { NO_KEY, type RoutedKey, sentModel } from '../routing/table.ts'
import { consumeStream } from './answer/consume-stream.ts'
import { upstreamError } from './answer/upstream-error.ts'
import { type Catalog, createAddressBook, type RelayChannel } from './catalog/catalog.ts'
import { type CallDeps, type ChannelCall, firstEventOf, prepareCall } from './channel-call.ts'
import { createIdsAndClock } from './ids-and-clock.ts'
import { questionOf } from './test-questions.ts'
import type { AttemptFailure } from './upstream/failure.ts'

export type TestOptions = {
  readonly model?: string | undefined
  readonly isStream?: boolean | undefined
  readonly key?: RoutedKey
  /** The index of the key to test; absent: the first enabled key. */
  readonly keyIndex?: number | undefined
}

/** The result, with the key that was tested. */
export type KeyTestResult = ChannelTestResult & { readonly key: RoutedKey }

const FALLBACK_MODEL = 'gpt-4o-mini'

function keyToTest({ keys }: RelayChannel, index: number | undefined): RoutedKey {
  if (index === undefined) return keys.find(({ status }) => status === 1) ?? keys[0] ?? NO_KEY
  const key = keys.find(each => each.index === index)
  if (!key) throw invalidField('key', 'is not the index of a key of this channel')
  return key
}

type TestOutcome = Pick<ChannelTestResult, 'status' | 'error' | 'firstTokenMs'>

function outcomeOfFailure(failure: AttemptFailure, status: number | null): TestOutcome {
  const { answer, channel, kind, message, error } = failure
  if (answer) return { status, error: upstreamError(answer, channel, error).message, firstTokenMs: null }
  return { status, error: kind === 'invalid' ? message : `${kind}: ${message}`, firstTokenMs: null }
}

/** Sends a small request to one channel through the same steps as client requests. It charges no account. */
export function createChannelTest({
  catalog,
  upstream,
  keys,
  nowMs,
}: Pick<CallDeps, 'upstream' | 'keys' | 'nowMs'> & { readonly catalog: Catalog }) {
  const readContext = {
    settings: catalog.settings,
    isServed: (model: string) => catalog.table().resolve(model) !== undefined,
    idsAndClock: createIdsAndClock(nowMs),
  }
  const deps: CallDeps = { upstream, keys, nowMs, readContext, addressOf: createAddressBook() }

  async function ask(call: ChannelCall): Promise<TestOutcome> {
    const ready = call.encode(await call.request())
    if ('isRetryable' in ready) return { status: null, error: ready.message, firstTokenMs: null }
    const startedMs = nowMs()
    const exchange = call.send(ready)
    try {
      const outcome = firstEventOf(exchange, await exchange.outcome)
      if (outcome.kind === 'stream') {
        const firstTokenMs = nowMs() - startedMs
        const error = await consumeStream(outcome.flow, ready.outgoing.meter())
        return { status: outcome.status, error: error ?? null, firstTokenMs }
      }
      const status = outcome.kind === 'buffered' ? outcome.status : null
      const judgement = await call.judge(outcome, ready.outgoing)
      return 'reading' in judgement
        ? { status, error: null, firstTokenMs: null }
        : outcomeOfFailure(judgement, status)
    } finally {
      exchange.abort()
    }
  }

  return async function testChannel(
    id: number,
    { model: requestedModel, isStream = false, key = undefined, keyIndex }: TestOptions,
  ): Promise<KeyTestResult> {
    const channel = catalog.table().channel(id)
    if (!channel) throw new Refusal('not_found', 'No such channel.')
    const model = requestedModel ?? (channel.testModel || channel.models[0] || FALLBACK_MODEL)
    const step = {
      channel,
      key: key ?? keyToTest(channel, keyIndex),
      sentModel: sentModel(channel, model),
    }
    const { spec, work } = await questionOf(model, step.sentModel, { isStream, readContext })
    const subject = { id, name: channel.name, model, key: step.key }
    const unfit = work.unfit?.(channel, step.sentModel)
    const call = unfit ? undefined : prepareCall(deps, step, { spec, work, client: {} })
    const startedMs = nowMs()
    const finding = call
      ? await ask(call)
      : {
          status: null,
          error: unfit?.message ?? 'The provider does not support this operation.',
          firstTokenMs: null,
        }
    const error = finding.error === null ? null : channel.secrets.scrub(finding.error)
    return { ...subject, ...finding, error, isGood: error === null, latencyMs: nowMs() - startedMs }
  }
}
