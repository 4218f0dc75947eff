/** The states of a job in their order (docs/reference/videos.md: Video states). */
export const VIDEO_STATES = ['queued', 'processing', 'completed', 'failed'] as const
export type VideoStatus = (typeof VIDEO_STATES)[number]

const RANK: Readonly<Record<VideoStatus, number>> = { queued: 0, processing: 1, completed: 2, failed: 2 }

/** A job never returns to an earlier state: such a report is ignored. */
export const laterStatus = (current: VideoStatus, reported: VideoStatus): VideoStatus =>
  RANK[reported] > RANK[current] ? reported : current

export const hasEnded = (status: VideoStatus) => RANK[status] === RANK.completed

/**
 * The phase of a job in the gateway. `submitting`: it is being sent to the provider. `doubt`: it was sent, and the provider's
 * answer is missing. `running`: the provider accepted it, and it is charged. `ended`: it is no longer polled.
 */
export type VideoPhase = 'submitting' | 'doubt' | 'running' | 'ended'

/** Lifetime of a result whose provider names no expiry (docs/reference/videos.md: Video job object). */
export const RESULT_LIFETIME_S = 24 * 3600

/** Progress is stored in thousandths: integers are the same in both database engines. */
export const THOUSANDTHS = 1_000
