import type {
  FurtherRejections,
  Rejection,
  RejectionBatch,
  RejectionRowIds,
  UnknownCallers,
} from '../domain/rejection.ts'

/** The requests of a token, code and minute that get a row each. Further ones share a row. */
const ROWS_OF_WINDOW = 60
/** Rows that wait for the store. Further requests are only counted. */
const MAX_WAITING_ROWS = 5_000
/** More tokens and codes at once, in a long outage of the store, are counted by code only. */
const MAX_WINDOWS = 10_000
const MINUTE_MS = 60_000
const WRITE_EVERY_MS = 250

/** The requests of one token (or of unknown callers) with one code in one minute. */
type Window = {
  readonly minute: number
  readonly first: Pick<Rejection, 'timeMs' | 'code'> & Partial<Rejection>
  rows: number
  /** Counted since the last write. */
  waiting: number
  /** The id of the log row with their number; undefined until it is written. */
  rowId: number | undefined
}

type RejectionsDeps = {
  /** Identifies this process: the ids of its batches begin with it. */
  readonly boot: string
  write(batch: RejectionBatch): Promise<RejectionRowIds>
  onFailure(error: Error): void
}

/**
 * Records requests that the gateway rejects. They are written in batches and not journaled: a killed process loses those
 * of its last quarter second. While the store is unavailable, they wait in bounded memory.
 */
export function createRejections({ boot, write, onFailure }: RejectionsDeps) {
  const windows = new Map<string, Window>()
  let rows: Rejection[] = []
  let writing: Promise<void> | undefined
  let unacknowledged: ReturnType<typeof nextBatch> | undefined
  let batches = 0

  function windowOf(name: string, first: Window['first']): Window {
    const minute = Math.floor(first.timeMs / MINUTE_MS)
    const key = `${name} ${minute}`
    const open = windows.get(key)
    if (open) return open
    const opened: Window = { minute, first, rows: 0, waiting: 0, rowId: undefined }
    windows.set(key, opened)
    return opened
  }

  /** All that waits, and the windows of its counts. A copy: more are added while these are written. */
  function nextBatch() {
    const counted = [...windows.values()].filter(({ waiting }) => waiting > 0)
    const [further, unknown] = [counted.filter(isKnown), counted.filter(window => !isKnown(window))]
    batches += 1
    const batch: RejectionBatch = {
      id: `${boot} ${batches}`,
      rows: [...rows],
      further: further.map(
        ({ first, waiting, rowId }): FurtherRejections => ({
          first: first as Rejection,
          requests: waiting,
          rowId,
        }),
      ),
      unknown: unknown.map(
        ({ first, waiting, rowId }): UnknownCallers => ({ ...first, requests: waiting, rowId }),
      ),
    }
    return { batch, further, unknown }
  }

  async function writeAll(): Promise<void> {
    // A failed write may have been committed without an acknowledgement. It is repeated unchanged, so that the store can
    // recognize it.
    unacknowledged ??= nextBatch()
    const { batch, further, unknown } = unacknowledged
    const ids = await write(batch)
    unacknowledged = undefined
    rows = rows.slice(batch.rows.length)
    for (const [index, window] of further.entries()) {
      window.rowId = ids.further[index]
      window.waiting -= batch.further[index]?.requests ?? 0
    }
    for (const [index, window] of unknown.entries()) {
      window.rowId = ids.unknown[index]
      window.waiting -= batch.unknown[index]?.requests ?? 0
    }
  }

  const isKnown = ({ first }: Window) => first.tokenId !== undefined

  function removeEnded(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS)
    for (const [key, window] of windows)
      if (window.minute < minute && window.waiting === 0) windows.delete(key)
  }

  function flush(): Promise<void> {
    const isWaiting = rows.length > 0 || windows.values().some(({ waiting }) => waiting > 0)
    if (isWaiting)
      writing ??= writeAll()
        .catch(onFailure)
        .finally(() => {
          writing = undefined
        })
    return writing ?? Promise.resolve()
  }

  /** Counts a request whose caller is not identified. */
  function addUnknown(code: string, timeMs: number): void {
    windowOf(`unknown ${code}`, { code, timeMs }).waiting += 1
  }

  const timer = setInterval(() => {
    removeEnded(Date.now())
    void flush()
  }, WRITE_EVERY_MS)
  timer.unref()

  return {
    add(rejection: Rejection): void {
      if (windows.size >= MAX_WINDOWS) {
        addUnknown(rejection.code, rejection.timeMs)
        return
      }
      // Playground requests have no token, so the user is a part of the name.
      const { userId, tokenId, code, canaries } = rejection
      const marks = canaries === undefined ? '' : ` ${JSON.stringify(canaries)}`
      const window = windowOf(`${userId} ${tokenId} ${code}${marks}`, rejection)
      if (window.rows >= ROWS_OF_WINDOW || rows.length >= MAX_WAITING_ROWS) {
        window.waiting += 1
        return
      }
      window.rows += 1
      rows.push(rejection)
    },
    addUnknown,
    /** Stops the timer and writes the waiting rejections. */
    async close(): Promise<void> {
      clearInterval(timer)
      await flush()
      await flush()
    },
  }
}

export type Rejections = ReturnType<typeof createRejections>
