import { type ExchangeTexts, maxPagedBytes, writePaged } from '../../domain/body-page.ts'

/** A page ends with the body that reaches one of these limits. To read one of its bodies, the whole page is decrypted. */
const PAGE_BYTES = 256 * 1024
const PAGE_BODIES = 512
const STAGE_BYTES = 1_048_576
/** A larger buffer is not used again. */
const MAX_KEPT_BYTES = 4 * STAGE_BYTES
const EMPTY: Buffer<ArrayBuffer> = Buffer.alloc(0)

/** The bodies of one request in the stage. */
type StagedBody = { readonly requestId: string; readonly start: number; readonly end: number }

/** Bodies of one user that are encrypted together. */
export type StagedPage = {
  readonly userId: number
  readonly bodies: StagedBody[]
  size: number
  /** The memory that they count for. */
  memoryBytes: number
}

/**
 * The bytes of bodies that wait for the store, in the order of their requests. They are in one buffer that is used again:
 * objects that wait would be copied into V8's old generation, and small buffers are expensive to create and to collect.
 */
export function createStage() {
  let bytes = EMPTY
  let end = 0
  /** The last page of each user, and those before. */
  let openPages = new Map<number, StagedPage>()
  let pages: StagedPage[] = []

  function reserve(length: number): void {
    if (end + length <= bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(STAGE_BYTES, bytes.length * 2, end + length))
    bytes.copy(larger, 0, 0, end)
    bytes = larger
  }

  function pageOf(userId: number): StagedPage {
    const open = openPages.get(userId)
    if (open && open.size < PAGE_BYTES && open.bodies.length < PAGE_BODIES) return open
    const page: StagedPage = { userId, bodies: [], size: 0, memoryBytes: 0 }
    openPages.set(userId, page)
    pages.push(page)
    return page
  }

  return {
    size: () => end,
    /** `memoryBytes`: the memory that the bodies count for. */
    add(
      { requestId, userId }: { readonly requestId: string; readonly userId: number },
      texts: ExchangeTexts,
      memoryBytes: number,
    ): void {
      reserve(maxPagedBytes(texts))
      const start = end
      end = writePaged(bytes, start, texts)
      const page = pageOf(userId)
      page.bodies.push({ requestId, start, end })
      page.size += end - start
      page.memoryBytes += memoryBytes
    },
    pages: (): readonly StagedPage[] => pages,
    /** Copies the bytes of a page to the start of a buffer that is large enough. */
    copyTo(target: Buffer, page: StagedPage): void {
      let at = 0
      for (const body of page.bodies) at += bytes.copy(target, at, body.start, body.end)
    },
    clear(): void {
      if (bytes.length > MAX_KEPT_BYTES) bytes = EMPTY
      end = 0
      openPages = new Map()
      pages = []
    },
  }
}

export type BodyStage = ReturnType<typeof createStage>
