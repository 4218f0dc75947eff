import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import { addressOf } from '../hub/citation.ts'
import { bodyOf, compact } from '../hub/fields.ts'
import type { Citation } from '../hub/hub.ts'

/** A citation, and the index of the part that it belongs to. */
type Grounded = { readonly part: number; readonly citation: Citation }

/**
 * The citations of an answer. Offsets count the bytes of the part's text (`textOf`). A source without an offset is cited
 * too.
 */
export function decodeGrounding(metadata: unknown, textOf: (part: number) => string): readonly Grounded[] {
  const sources = listOf(member(metadata, 'groundingChunks')).map(sourceOf)
  const supports = listOf(member(metadata, 'groundingSupports')).filter(isObject)
  const supportedCitations = supports.flatMap(support => {
    const segment = member(support, 'segment')
    const part = countIn(segment, 'partIndex') ?? 0
    const place = placeIn(Buffer.from(textOf(part)), segment)
    return listOf(support.groundingChunkIndices).flatMap(index => {
      const source = typeof index === 'number' ? sources[index] : undefined
      return source === undefined ? [] : [{ part, citation: { ...source, ...place } }]
    })
  })
  return supports.length > 0
    ? supportedCitations
    : sources.flatMap(citation => (citation === undefined ? [] : [{ part: 0, citation }]))
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const textIn = (value: unknown, name: string): string | undefined => {
  const text = member(value, name)
  return typeof text === 'string' ? text : undefined
}

const countIn = (value: unknown, name: string): number | undefined => {
  const count = member(value, name)
  return typeof count === 'number' && Number.isSafeInteger(count) && count >= 0 ? count : undefined
}

function sourceOf(chunk: unknown): Citation | undefined {
  const source = member(chunk, 'web') ?? member(chunk, 'retrievedContext') ?? member(chunk, 'maps')
  const url = textIn(source, 'uri')
  const title = textIn(source, 'title')
  if (url === undefined && title === undefined) return undefined
  return compact<Citation>({ url, title, quote: textIn(source, 'text') })
}

function placeIn(text: Buffer, segment: unknown): Pick<Citation, 'start' | 'end'> {
  const end = countIn(segment, 'endIndex')
  if (end === undefined) return {}
  const unitsAt = (bytes: number) => text.subarray(0, bytes).toString().length
  return { start: unitsAt(countIn(segment, 'startIndex') ?? 0), end: unitsAt(end) }
}

/** The citations of one part of an answer for a client. */
export type Cited = { readonly part: number; readonly text: string; readonly citations: readonly Citation[] }

/** Web pages as such; files and documents in the form of the vendor's own retrieval. */
export function encodeGrounding(parts: readonly Cited[]): JsonObject | undefined {
  const sources = parts.flatMap(({ part, text, citations }) =>
    citations.flatMap(citation => {
      const chunk = chunkOf(citation)
      return chunk === undefined ? [] : [{ part, text, citation, chunk }]
    }),
  )
  if (sources.length === 0) return undefined
  return {
    groundingChunks: sources.map(({ chunk }) => chunk),
    groundingSupports: sources.map((source, index) => ({
      segment: segmentOf(source),
      groundingChunkIndices: [index],
    })),
  }
}

function chunkOf(citation: Citation): JsonObject | undefined {
  const { url, title, quote } = citation
  const uri = addressOf(citation)
  if (uri === undefined) return undefined
  return url === undefined
    ? { retrievedContext: bodyOf({ uri, title, text: quote }) }
    : { web: bodyOf({ uri, title }) }
}

type PlacedCitation = { readonly part: number; readonly text: string; readonly citation: Citation }

function segmentOf({ part, text, citation }: PlacedCitation): JsonObject {
  const start = borderAt(text, citation.start ?? 0)
  const end = borderAt(text, citation.end ?? text.length)
  return {
    ...(part > 0 && { partIndex: part }),
    startIndex: Buffer.byteLength(text.slice(0, start)),
    endIndex: Buffer.byteLength(text.slice(0, end)),
    text: text.slice(start, end),
  }
}

/** An offset inside a character becomes the offset after it. */
export function borderAt(text: string, at: number): number {
  const unit = text.charCodeAt(at)
  return unit >= 0xdc00 && unit <= 0xdfff ? at + 1 : at
}
