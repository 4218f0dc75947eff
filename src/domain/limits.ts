/** Rate limits of a token, user or channel: stored as JSON, presented with all three fields. */
export type LimitFields = { rpm: number | null; tpm: number | null; concurrency: number | null }

type LimitChanges = { readonly [name in keyof LimitFields]?: number | null | undefined }

export function parseLimits(stored: string): LimitFields {
  const { rpm = null, tpm = null, concurrency = null } = JSON.parse(stored) as Partial<LimitFields>
  return { rpm, tpm, concurrency }
}

/** An absent limit keeps its value; null removes it. */
export function mergeLimits(changes: LimitChanges, current = '{}'): string {
  const storedLimits = parseLimits(current)
  return JSON.stringify({
    rpm: changes.rpm === undefined ? storedLimits.rpm : changes.rpm,
    tpm: changes.tpm === undefined ? storedLimits.tpm : changes.tpm,
    concurrency: changes.concurrency === undefined ? storedLimits.concurrency : changes.concurrency,
  })
}
