import type { KeptExchange } from './body-log.ts'

/**
 * The bytes of kept bodies before they are encrypted. An exchange is the length of its description, the description as JSON,
 * the request and the answer. A page is a sequence of exchanges, each after its length.
 */
const LENGTH_BYTES = 4

/** A request and its answer as they are stored. */
export type ExchangeBytes<Description extends KeptExchange = KeptExchange> = {
  readonly exchange: Description
  readonly request: Buffer
  readonly answer: Buffer
}

/** What a page has about a request: the id authenticates that the page belongs to it. */
export type PagedExchange = KeptExchange & { readonly request_id: string; readonly token_id: number }

/** The texts of a new exchange. Bodies are Latin-1 texts: one character for each byte. */
export type ExchangeTexts = {
  /** JSON of a `PagedExchange`. */
  readonly description: string
  readonly request: string
  readonly answer: string
}

/** A character of the description has up to three bytes. */
export const maxPagedBytes = ({ description, request, answer }: ExchangeTexts): number =>
  2 * LENGTH_BYTES + 3 * description.length + request.length + answer.length

/** Writes an exchange of a page. Returns its end. */
export function writePaged(page: Buffer, start: number, texts: ExchangeTexts): number {
  const descriptionAt = start + 2 * LENGTH_BYTES
  const descriptionBytes = page.write(texts.description, descriptionAt)
  let end = descriptionAt + descriptionBytes
  end += page.write(texts.request, end, 'latin1')
  end += page.write(texts.answer, end, 'latin1')
  page.writeUInt32BE(end - start - LENGTH_BYTES, start)
  page.writeUInt32BE(descriptionBytes, start + LENGTH_BYTES)
  return end
}

export function readExchange<Description extends KeptExchange>(bytes: Buffer): ExchangeBytes<Description> {
  const start = LENGTH_BYTES + bytes.readUInt32BE(0)
  const exchange = JSON.parse(bytes.toString('utf8', LENGTH_BYTES, start)) as Description
  const middle = start + exchange.request.kept
  return { exchange, request: bytes.subarray(start, middle), answer: bytes.subarray(middle) }
}

/** The first exchange of a request in a page; undefined: there is none. */
export function findPaged(page: Buffer, requestId: string): ExchangeBytes<PagedExchange> | undefined {
  for (let start = 0; start < page.length; ) {
    const end = start + LENGTH_BYTES + page.readUInt32BE(start)
    const candidate = readExchange<PagedExchange>(page.subarray(start + LENGTH_BYTES, end))
    if (candidate.exchange.request_id === requestId) return candidate
    start = end
  }
  return undefined
}
