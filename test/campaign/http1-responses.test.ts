import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { readPlainHead } from '../../src/http1/client/plain-head.ts'
import { createResponseParsers } from '../../src/http1/client/response-parser.ts'
import { createOracle } from '../support/llhttp.ts'
import { createRandom, mutatedResponse, piecesOf } from '../support/mutated-responses.ts'
import { readStrictly } from '../support/strict-response.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const CASES = isCampaign ? 10_000_000 : 40_000
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? Date.now() % 1_000_000_007 : 20_261_116))
const READ_BYTES = 256 * 1024

const FIRST_COUNTS = new Set(['content-type', 'location'])

/** Joins repeated headers as node:http does. */
function joinHeaders(lines: readonly (readonly [string, string])[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = Object.create(null)
  for (const [name, padded] of lines) {
    const value = padded.replace(/[ \t]+$/, '')
    const before = headers[name]
    if (name === 'set-cookie') headers[name] = [...(before ?? []), value]
    else if (before === undefined) headers[name] = value
    else if (!FIRST_COUNTS.has(name)) headers[name] = `${before}${name === 'cookie' ? ';' : ','} ${value}`
  }
  return headers
}

/** A header may be named `__proto__`. */
const withoutPrototype = (headers: object) => Object.assign(Object.create(null), headers)

describe('responses that are mutated', () => {
  const open = createResponseParsers(READ_BYTES)
  const parser = open()
  const oracle = createOracle()
  const buffer = Buffer.alloc(READ_BYTES)

  /** What the client reads of the pieces. A parser is used for all cases, as a connection uses it for all its responses. */
  function read(pieces: readonly Buffer[], method: string) {
    parser.begin(method)
    let body = ''
    let fault: string | undefined
    let isLast = true
    for (const piece of pieces) {
      piece.copy(buffer)
      fault = parser.read(buffer, piece.length)
      const { contentStart, contentEnd, isComplete } = parser.reading()
      body += buffer.toString('latin1', contentStart, contentEnd)
      isLast = piece === pieces.at(-1)
      if (fault !== undefined || isComplete) break
    }
    const { status, headers, isComplete } = parser.reading()
    // Bytes that arrive later, between two responses, close the connection.
    const isPersistent = parser.reading().isPersistent && isLast
    if (fault === undefined && !isComplete) parser.finish()
    return {
      status,
      headers: withoutPrototype(headers),
      body,
      fault,
      isComplete,
      isPersistent,
      isCompleteAtClose: parser.reading().isComplete,
    }
  }

  it(`are read as llhttp reads them, or are refused: ${CASES} cases, seed ${SEED}`, () => {
    const random = createRandom(SEED)
    const counts = { accepted: 0, refused: 0, strict: 0, plain: 0, refusedByUsAlone: 0 }
    for (let index = 0; index < CASES; index++) {
      const text = mutatedResponse(random)
      const method = random.isOneIn(10) ? 'HEAD' : 'GET'
      const bytes = Buffer.from(text, 'latin1')
      const own = read(piecesOf(bytes, random), method)
      const other = oracle([bytes], method)
      const about = () =>
        `case ${index} (${method}): ${JSON.stringify(text)}\nclient ${JSON.stringify(own)}\nllhttp ${JSON.stringify(other)}`

      if (own.fault !== undefined || own.status === 0) {
        counts.refused += 1
        if (own.fault !== undefined && other.error === 0) counts.refusedByUsAlone += 1
      } else {
        counts.accepted += 1
        // The client accepts nothing that llhttp refuses, and reads the same.
        if (other.error !== 0) assert.fail(about())
        if (other.status !== own.status || other.body !== own.body) assert.fail(about())
        if (other.isComplete !== own.isComplete || other.isCompleteAtClose !== own.isCompleteAtClose)
          assert.fail(about())
        if (own.isPersistent && !other.isPersistent) assert.fail(about())
        if (!isDeepStrictEqual(own.headers, joinHeaders(other.headers))) assert.fail(about())
      }

      // llhttp accepts every head that the client reads without it, also if it refuses what follows.
      const plain = method === 'HEAD' ? undefined : readPlainHead(bytes, bytes.length)
      if (plain !== undefined) {
        counts.plain += 1
        const { contentLength, isChunked } = plain.lines
        const isPersistent = plain.keepsAlive && (isChunked || contentLength !== undefined)
        if (other.status !== plain.status || other.isPersistent !== isPersistent) assert.fail(about())
        if (!isDeepStrictEqual(withoutPrototype(plain.lines.headers), joinHeaders(other.headers)))
          assert.fail(about())
      }

      // A second, independent reading: what it accepts, the client accepts and reads the same.
      const strict = readStrictly(text, method)
      if (strict === undefined) continue
      counts.strict += 1
      if (own.fault !== undefined || !own.isCompleteAtClose) assert.fail(about())
      if (strict.status !== own.status || strict.body !== own.body) assert.fail(about())
      if (own.isPersistent && strict.rest !== '') assert.fail(about())
      if (!isDeepStrictEqual(own.headers, joinHeaders(strict.headers))) assert.fail(about())
    }
    // Each happens often enough for the comparison to be meaningful.
    for (const count of [counts.accepted, counts.refused, counts.strict, counts.plain])
      assert.ok(count > CASES / 20, JSON.stringify(counts))
  })
})
