import type { ChannelTestResult } from '../../domain/channel-test.ts'
import { mapConcurrently } from '../../domain/map-concurrently.ts'
import type { channelContract } from '../contract/channels.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { mustFindChannel } from './channel-rows.ts'

type TestHandlers = Pick<Handlers<typeof channelContract>, 'testChannel' | 'testChannels'>

const AT_ONCE = 10

const presentTest = ({
  id,
  name,
  model,
  isGood,
  latencyMs,
  firstTokenMs,
  status,
  error,
}: ChannelTestResult) => ({
  success: isGood,
  message: error ?? '',
  time: Math.round(latencyMs) / 1000,
  data: { id, name, model, latency_ms: latencyMs, first_token_ms: firstTokenMs, status, error },
})

/** Channel tests (docs/reference/routing.md: Channel tests). They cost nothing, and a failed test is a 200. */
export function createChannelTestHandlers({ db, channels }: Deps): TestHandlers {
  return {
    async testChannel({ params, query }) {
      await mustFindChannel(db, params.id)
      const { model, stream: isStream, key: keyIndex } = query
      return presentTest(await channels.test(params.id, { model, isStream, keyIndex }))
    },
    async testChannels() {
      const results = await mapConcurrently(channels.enabledIds(), AT_ONCE, id => channels.test(id, {}))
      return results.map(presentTest)
    },
  }
}
