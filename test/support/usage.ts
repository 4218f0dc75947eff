import type { UsageLog } from '../../src/domain/settled.ts'

/** The usage of a request for the ledger, if its figures do not matter. */
export const USAGE: UsageLog = {
  tokenName: 'test',
  model: 'gpt-4o-mini',
  promptTokens: 10,
  completionTokens: 20,
  useTimeMs: 5,
  isStream: false,
  address: '127.0.0.1',
  isError: false,
  content: '',
  upstreamRequestId: '',
  other: {},
}
