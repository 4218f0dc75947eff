/** A submitted video job. */
export type Job = {
  readonly id: string
  /** The last characters of its key: other accounts cannot see the job. */
  readonly owner: string
  readonly model: string
  readonly prompt: string
  readonly seconds: string
  readonly size: string
  readonly createdMs: number
  /** Further data of the protocol. */
  readonly more: Readonly<Record<string, unknown>>
  looks: number
}

/** When a job was asked for. */
type LookTimes = { lastMs: number | undefined; leastPauseMs: number | undefined }

export type JobState = {
  readonly status: 'queued' | 'running' | 'done' | 'failed' | 'odd'
  /** From 0 to 1. */
  readonly progress: number
  readonly error?: { readonly code: string; readonly message: string }
}

const LASTS_MS = 30

const numberAfter = (model: string, word: string): number | undefined => {
  const words = model.split('-')
  const value = words[words.indexOf(word) + 1]
  return words.includes(word) && value !== undefined && /^\d+$/.test(value) ? Number(value) : undefined
}

const has = (model: string, word: string) => model.split('-').includes(word)

/**
 * The progress of a job, which words of its model's name control: `lasts-N` (milliseconds), `fails`, `never` (never ends),
 * `odd` (unknown states), `backwards` (decreasing progress).
 */
export function stateOf({ model, createdMs, looks }: Job, nowMs: number): JobState {
  const lastsMs = numberAfter(model, 'lasts') ?? LASTS_MS
  const share = Math.min(1, (nowMs - createdMs) / Math.max(1, lastsMs))
  if (has(model, 'never')) return { status: 'running', progress: 0.5 }
  if (share >= 1) {
    if (has(model, 'fails'))
      return {
        status: 'failed',
        progress: share,
        error: { code: 'moderation_blocked', message: 'The simulator will not make this video.' },
      }
    return { status: 'done', progress: 1 }
  }
  if (has(model, 'odd')) return { status: 'odd', progress: share }
  if (has(model, 'backwards') && looks % 2 === 0) return { status: 'queued', progress: 0 }
  return share < 0.1 ? { status: 'queued', progress: 0 } : { status: 'running', progress: share }
}

export const isExpiring = ({ model }: Job) => has(model, 'expires')

/** All accepted jobs, in memory. */
export function createJobs() {
  const jobs = new Map<string, Job & LookTimes>()
  return {
    take(job: Omit<Job, 'looks'>): void {
      jobs.set(job.id, { ...job, looks: 0, lastMs: undefined, leastPauseMs: undefined })
    },
    find(id: string, owner: string, nowMs: number): Job | undefined {
      const job = jobs.get(id)
      if (job?.owner !== owner) return undefined
      job.looks += 1
      if (job.lastMs !== undefined)
        job.leastPauseMs = Math.min(job.leastPauseMs ?? Infinity, nowMs - job.lastMs)
      job.lastMs = nowMs
      return job
    },
    list: (owner: string): readonly Job[] => [...jobs.values()].filter(job => job.owner === owner).reverse(),
    remove: (id: string): void => void jobs.delete(id),
    report: () => ({
      jobs: [...jobs.values()].map(({ id, owner, model, prompt, looks, leastPauseMs, more }) => ({
        id,
        key_hint: owner,
        model,
        prompt,
        looks,
        least_pause_ms: leastPauseMs ?? null,
        more,
      })),
    }),
  }
}

export type Jobs = ReturnType<typeof createJobs>
