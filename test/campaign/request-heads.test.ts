import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseRequestHead } from '../../src/http1/server/request-head.ts'
import { createRandom, createRequestBytes } from '../support/request-bytes.ts'
import { createOracle } from '../support/request-oracle.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const COUNT = isCampaign ? 10_000_000 : 30_000
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? Date.now() % 2 ** 32 : 20_261_116))
const MAX_HEADERS = 100

describe('a request that the gateway serves without node:http', () => {
  it(`is one that llhttp reads in the same way: ${COUNT} requests, seed ${SEED}`, () => {
    const next = createRequestBytes(createRandom(SEED))
    const oracle = createOracle()
    let accepted = 0
    for (let i = 0; i < COUNT; i++) {
      const bytes = next()
      const end = bytes.indexOf('\r\n\r\n')
      if (end === -1) continue
      const size = end + 4
      const head = parseRequestHead(bytes.toString('latin1', 0, size), MAX_HEADERS)
      if (head === undefined || bytes.length - size < head.contentLength) continue
      accepted++
      const { url, headers, contentLength, keepsAlive } = head
      const request = bytes.subarray(0, size + contentLength)
      const parsed = oracle(request)
      const text = JSON.stringify(request.toString('latin1'))
      assert.ok(parsed, `llhttp refuses ${text}`)
      assert.deepEqual(
        { ...parsed, headers: Object.entries(parsed.headers).sort() },
        {
          method: 'POST',
          url,
          version: '1.1',
          headers: Object.entries(headers).sort(),
          bodyBytes: contentLength,
          isUpgrade: false,
          keepsAlive,
          messages: 1,
        },
        text,
      )
    }
    assert.ok(accepted > COUNT / 20, `only ${accepted} of ${COUNT} were accepted`)
  })
})
