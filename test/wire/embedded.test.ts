import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { embed, encodeDocument } from '../../src/wire/embedded.ts'
import type { StoredFile } from '../../src/wire/multipart.ts'

/** A file that is read in chunks of this many bytes. */
const fileOf = (bytes: Buffer, chunk: number): StoredFile => ({
  name: 'a.png',
  type: 'image/png',
  size: bytes.length,
  open: () =>
    Readable.from(
      Array.from({ length: Math.ceil(bytes.length / chunk) }, (_each, at) =>
        bytes.subarray(at * chunk, (at + 1) * chunk),
      ),
    ),
  read: async (offset, length) => bytes.subarray(offset, offset + length),
})

describe('files in a document', () => {
  it('are the base64 of their bytes, with any chunk boundaries, and the length is known', async () => {
    for (const size of [1, 2, 3, 4, 100, 1_000])
      for (const chunk of [1, 2, 3, 7, 64, 5_000]) {
        const bytes = Buffer.from(Array.from({ length: size }, (_each, at) => (at * 37) % 256))
        const file = fileOf(bytes, chunk)
        const document = { prompt: '"é"', image: { url: embed(file, 'data:x;base64,') }, list: [embed(file)] }
        const encodedDocument = encodeDocument(document)
        assert.ok(!Buffer.isBuffer(encodedDocument))
        for (const time of [1, 2]) {
          const encodedBytes = await buffer(encodedDocument.open())
          assert.equal(encodedBytes.length, encodedDocument.length, `${size} in ${chunk}, time ${time}`)
          const base64 = bytes.toString('base64')
          assert.deepEqual(JSON.parse(encodedBytes.toString('utf8')), {
            prompt: '"é"',
            image: { url: `data:x;base64,${base64}` },
            list: [base64],
          })
        }
      }
  })

  it('change nothing if there are none', () => {
    const document = { prompt: 'p', n: 1, left: undefined }
    assert.deepEqual(encodeDocument(document), Buffer.from('{"prompt":"p","n":1}'))
  })
})
