/** Rate limits of a token, user or channel: stored as JSON, always told whole. */
export type LimitFields = { rpm: number | null; tpm: number | null; concurrency: number | null }

type Given = { readonly [name in keyof LimitFields]?: number | null | undefined }

export function limitsTold(stored: string): LimitFields {
  const { rpm = null, tpm = null, concurrency = null } = JSON.parse(stored) as Partial<LimitFields>
  return { rpm, tpm, concurrency }
}

/** A limit that is not named keeps its value; null takes it away. */
export function limitsStored(given: Given, current = '{}'): string {
  const kept = limitsTold(current)
  return JSON.stringify({
    rpm: given.rpm === undefined ? kept.rpm : given.rpm,
    tpm: given.tpm === undefined ? kept.tpm : given.tpm,
    concurrency: given.concurrency === undefined ? kept.concurrency : given.concurrency,
  })
}
