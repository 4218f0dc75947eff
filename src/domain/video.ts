/** The states of a job in their order (docs/reference/videos.md: Video states). */
export const VIDEO_STATES = ['queued', 'processing', 'completed', 'failed'] as const
export type VideoStatus = (typeof VIDEO_STATES)[number]

const RANK: Readonly<Record<VideoStatus, number>> = { queued: 0, processing: 1, completed: 2, failed: 2 }

/** A job never goes back: what is told later of an earlier state counts for nothing. */
export const laterStatus = (known: VideoStatus, told: VideoStatus): VideoStatus =>
  RANK[told] > RANK[known] ? told : known

export const hasEnded = (status: VideoStatus) => RANK[status] === RANK.completed

/**
 * Where a job stands with us. `submitting`: somebody is about to send it, or has just done so; `doubt`: it was sent and
 * nobody knows whether it was taken; `running`: the provider has it, and it is paid; `ended`: nothing more is asked.
 */
export type VideoPhase = 'submitting' | 'doubt' | 'running' | 'ended'

/** Lifetime of a result whose provider names no expiry (docs/reference/videos.md: Video job object). */
export const RESULT_LIFE_S = 24 * 3600

/** Progress is kept in thousandths: whole numbers are the same in both engines. */
export const THOUSANDTHS = 1_000
