// The exceptions of the laws about tests. test/architecture.test.ts fails for a file that is not listed and should be, and for one
// that is listed and need not be: these lists only get shorter.

/** Call `fetch`: for other servers than the gateway, for what a retry would hide, or not yet through `retryingFetch`. */
export const CALL_FETCH: readonly string[] = [
  'test/app/console-files.test.ts',
  'test/app/management-api.test.ts',
  'test/app/request-log.test.ts',
  'test/app/start.test.ts',
  'test/attacks/client/uploads.test.ts',
  'test/chat/relay-clients.test.ts',
  'test/cli/migrate.test.ts',
  'test/http1/tls.test.ts',
  'test/manage/envelope.test.ts',
  'test/manage/playground.test.ts',
  'test/media/images.test.ts',
  'test/media/transcription.test.ts',
  'test/relay/bodies.test.ts',
  'test/relay/client-disconnects.test.ts',
  'test/relay/operations.test.ts',
  'test/relay/relay.test.ts',
  'test/relay/vendors.test.ts',
  'test/relay/vertex.test.ts',
  'test/relay/wire.test.ts',
  'test/simulator/control.test.ts',
  'test/simulator/faults.test.ts',
  'test/simulator/gemini.test.ts',
  'test/simulator/openai.test.ts',
  'test/simulator/outbound-formats.test.ts',
  'test/simulator/simulator.test.ts',
  'test/system/attacks/origin/pages.test.ts',
  'test/system/blackbox/operator.test.ts',
  'test/system/console/account.test.ts',
  'test/system/packaging/npm.test.ts',
  'test/videos/videos.test.ts',
]

/** Wait for a time with `setTimeout` of `node:timers/promises`: between the requests of a load, or not yet for a condition. */
export const WAIT_FOR_TIME: readonly string[] = [
  'test/campaign/http1-aborts.test.ts',
  'test/campaign/upload-memory.test.ts',
  'test/fleet/locks.test.ts',
  'test/http1/client.test.ts',
  'test/manage/channel-tags.test.ts',
  'test/manage/idempotency.test.ts',
  'test/media/images.test.ts',
  'test/media/transcription.test.ts',
  'test/relay/usage-edge-cases.test.ts',
  'test/relay/wire.test.ts',
  'test/simulator/faults.test.ts',
  'test/simulator/simulator.test.ts',
  'test/store/store.test.ts',
  'test/system/app/rolling-restart.test.ts',
  'test/system/campaign/fleet-faults.test.ts',
  'test/system/campaign/kill-storm.test.ts',
  'test/system/campaign/lost-disk.test.ts',
  'test/system/campaign/patroni.test.ts',
  'test/system/campaign/relay-kills.test.ts',
  'test/system/campaign/relay-outages.test.ts',
  'test/system/campaign/store-away.test.ts',
  'test/system/campaign/video-kill.test.ts',
  'test/system/cli/backup.test.ts',
  'test/system/fleet/changes.test.ts',
  'test/system/store/store-outage.test.ts',
  'test/videos/search.test.ts',
  'test/videos/videos.test.ts',
]

/** Call `setTimeout` itself. */
export const SET_TIMEOUTS: readonly string[] = ['test/host/on-demand-thread.test.ts']

/** Set `first_byte_ms`, `idle_ms` or `total_ms` below 10,000. Their upstreams never answer, or they only store the settings. */
export const SHORT_TIMEOUTS: readonly string[] = [
  'test/app/error-table.test.ts',
  'test/app/metrics.test.ts',
  'test/chat/relay-sdk.test.ts',
  'test/manage/channel-fields.test.ts',
  'test/media/images.test.ts',
  'test/relay/faults.test.ts',
  'test/videos/videos.test.ts',
]

/** Assert how long something took. */
export const ASSERT_DURATIONS: readonly string[] = []

/** Need other programs outside test/system, or test the table of the programs. */
export const NEED_PROGRAMS: readonly string[] = ['test/support/programs.test.ts']
