import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import { storable } from '../../domain/text.ts'
import { badParameter } from '../operations/carry.ts'

/** Names and values that a client attaches to a request (docs/reference/relay-api.md: Tags). */
export type RequestTags = Readonly<Record<string, string>>

export const TAGS_HEADER = 'x-sluice-tags'
const MAX_TAGS = 10
const MAX_LENGTH = 64
/** The limits of OpenAI. Longer values are cut: the request is not refused for them. */
const MAX_METADATA = 16
const MAX_METADATA_VALUE = 512

const lengthOf = (text: string) => [...text].length
const cut = (text: string, length: number) => [...text].slice(0, length).join('')
const refuse = (message: string) => badParameter(TAGS_HEADER, message)

/** Node.js reads headers as Latin-1. Most clients send UTF-8, browsers Latin-1. */
function decoded(header: string): string {
  const bytes = Buffer.from(header, 'latin1')
  return isUtf8(bytes) ? bytes.toString('utf8') : header
}

function parseHeader(header: string): [string, string][] {
  const pairs = decoded(header)
    .split(',')
    .map(pair => pair.trim())
    .filter(pair => pair !== '')
  if (pairs.length > MAX_TAGS) throw refuse(`must have at most ${MAX_TAGS} tags`)
  const tags = pairs.map((pair): [string, string] => {
    const at = pair.indexOf('=')
    const [name, value] = [pair.slice(0, Math.max(0, at)).trim(), pair.slice(at + 1).trim()]
    if (name === '') throw refuse('must be a list such as project=atlas, team=search')
    if (lengthOf(name) > MAX_LENGTH || lengthOf(value) > MAX_LENGTH)
      throw refuse(`must have names and values of at most ${MAX_LENGTH} characters`)
    return [storable(name), storable(value)]
  })
  if (new Set(tags.map(([name]) => name)).size < tags.length) throw refuse('must not repeat a name')
  return tags
}

/** The texts of `metadata` that fit. Other values have no meaning as tags. */
function metadataTags(metadata: unknown): [string, string][] {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return []
  return Object.entries(metadata)
    .filter(([name, value]) => name !== '' && lengthOf(name) <= MAX_LENGTH && typeof value === 'string')
    .slice(0, MAX_METADATA)
    .map(([name, value]) => [storable(name), storable(cut(value, MAX_METADATA_VALUE))])
}

/**
 * The tags of a request: its `user`, the texts of its `metadata`, and the header, which overrides them. Undefined if there
 * are none.
 */
export function tagsOf(
  headers: IncomingHttpHeaders,
  { metadata, user }: { readonly metadata?: unknown; readonly user?: unknown } = {},
): RequestTags | undefined {
  const header = headers[TAGS_HEADER]
  if (header === undefined && metadata === undefined && user === undefined) return undefined
  const tags = [
    ...(typeof user === 'string' && user !== ''
      ? [['user', storable(cut(user, MAX_METADATA_VALUE))] as const]
      : []),
    ...metadataTags(metadata),
    ...(typeof header === 'string' ? parseHeader(header) : []),
  ]
  return tags.length === 0 ? undefined : Object.fromEntries(tags)
}
