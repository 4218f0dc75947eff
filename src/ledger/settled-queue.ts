import { CLOSE_ARRAY, COMMA, OPEN_ARRAY } from '../wire/ascii.ts'

/** A settled request that is not applied to the store, as JSON. */
export type UnappliedRecord = { readonly lsn: number; readonly body: string; readonly timeMs: number }

/** The bytes of about as many records as a batch may have. */
const PAGE_BYTES = 1_048_576
/** Pages that are kept for the next records. */
const MAX_SPARE = 2
const MAX_UTF8_BYTES = 3

/** Records that are applied together: a JSON array, which is complete once the page is closed. */
type Page = {
  readonly bytes: Buffer
  readonly lsns: number[]
  readonly timesMs: number[]
  /** Where each record ends. The comma or the bracket after it is written there. */
  readonly ends: number[]
  used: number
}

const createPage = (bytes: Buffer): Page => ({ bytes, lsns: [], timesMs: [], ends: [], used: 0 })

const addRecord = (page: Page, { lsn, body, timeMs }: UnappliedRecord): void => {
  page.bytes[page.used] = page.used === 0 ? OPEN_ARRAY : COMMA
  page.used += 1 + page.bytes.write(body, page.used + 1)
  page.lsns.push(lsn)
  page.timesMs.push(timeMs)
  page.ends.push(page.used)
}

const hasRoom = ({ bytes, used }: Page, body: string) =>
  // The comma or bracket before the record, and the bracket after it.
  used + body.length * MAX_UTF8_BYTES + 2 <= bytes.length

function* recordsOf({ bytes, lsns, timesMs, ends }: Page): Generator<UnappliedRecord> {
  let start = 1
  for (const [index, end] of ends.entries()) {
    const lsn = lsns[index] as number
    yield { lsn, body: bytes.toString('utf8', start, end), timeMs: timesMs[index] as number }
    start = end + 1
  }
}

/** The oldest records of the queue. */
export type SettledPage = {
  /** A JSON array of settle records, in UTF-8. */
  readonly json: Buffer
  readonly lastLsn: number
}

/**
 * Settled requests that the store has not applied, in their order. They are bytes and not strings, because they wait for
 * longer than V8's young generation lasts: a string of each request would be copied into the old one.
 * `maxRecords`: the number of records of a page.
 */
export function createSettledQueue(maxRecords: number) {
  let pages: Page[] = []
  const spare: Buffer[] = []
  let count = 0
  /** Set while the records are repaired: then they are here, and not in pages. */
  let list: UnappliedRecord[] | undefined
  let isFirstClosed = false

  function pageFor(body: string): Page {
    const last = pages.at(-1)
    const isClosed = pages.length === 1 && isFirstClosed
    if (last && !isClosed && last.lsns.length < maxRecords && hasRoom(last, body)) return last
    const least = body.length * MAX_UTF8_BYTES + 2
    const page = createPage(
      least > PAGE_BYTES
        ? Buffer.allocUnsafeSlow(least)
        : (spare.pop() ?? Buffer.allocUnsafeSlow(PAGE_BYTES)),
    )
    pages.push(page)
    return page
  }

  function push(record: UnappliedRecord): void {
    count++
    if (list) list.push(record)
    else addRecord(pageFor(record.body), record)
  }

  function setList(records: UnappliedRecord[]): void {
    pages = []
    isFirstClosed = false
    list = records
    count = records.length
  }

  function leaveList(): void {
    const records = list ?? []
    list = undefined
    count = 0
    for (const record of records) push(record)
  }

  return {
    push,
    length: () => count,
    oldestMs: (): number | undefined => (list ? list[0]?.timeMs : pages[0]?.timesMs[0]),
    lastLsn: (): number | undefined => (list ? list.at(-1)?.lsn : pages.at(-1)?.lsns.at(-1)),
    /** The oldest records. It is the same page until it is removed: later records are in another one. */
    first(): SettledPage | undefined {
      if (list) leaveList()
      const [page] = pages
      if (!page) return undefined
      isFirstClosed = true
      page.bytes[page.used] = CLOSE_ARRAY
      return { json: page.bytes.subarray(0, page.used + 1), lastLsn: page.lsns.at(-1) as number }
    },
    /** Removes the page that `first` has returned. */
    removeFirst(): void {
      const page = pages.shift()
      isFirstClosed = false
      if (!page) return
      count -= page.lsns.length
      if (page.bytes.length === PAGE_BYTES && spare.length < MAX_SPARE) spare.push(page.bytes)
    },
    /** All records, as a list that the caller may change. Until the next call of `first`, new records are added to it. */
    openList(): UnappliedRecord[] {
      if (!list) setList(pages.flatMap(page => [...recordsOf(page)]))
      return list as UnappliedRecord[]
    },
    /** Replaces all records by a list, as if `openList` had returned it. */
    setList,
  }
}

export type SettledQueue = ReturnType<typeof createSettledQueue>
