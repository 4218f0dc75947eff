/** The result of a test request through one channel. A test charges no account. */
export type ChannelTestResult = {
  readonly id: number
  readonly name: string
  readonly model: string
  readonly isGood: boolean
  readonly latencyMs: number
  readonly firstTokenMs: number | null
  readonly status: number | null
  readonly error: string | null
}
