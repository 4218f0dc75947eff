import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createResponseParsers } from '../../src/http1/client/response-parser.ts'

/** As in the client. */
const READ_BYTES = 256 * 1024

describe('the content of a response', () => {
  const open = createResponseParsers(READ_BYTES)
  const parser = open()
  const buffer = Buffer.alloc(READ_BYTES)

  function read(pieces: readonly string[]) {
    parser.begin('GET')
    let content = ''
    for (const piece of pieces) {
      const length = buffer.write(piece, 'latin1')
      // Bytes of an earlier read follow: they must not be taken for bytes of this one.
      buffer.fill('0\r\n\r\n', length, length + 64)
      const fault = parser.read(buffer, length)
      const { contentStart, contentEnd } = parser.reading()
      content += buffer.toString('latin1', contentStart, contentEnd)
      if (fault !== undefined) return { fault, content }
    }
    const { isComplete, isPersistent, headers } = parser.reading()
    return { content, isComplete, isPersistent, headers }
  }

  const HEAD = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  const CHUNKED: Readonly<Record<string, string>> = {
    'plain chunks': '5\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n',
    'an extension among plain chunks': '5\r\nhello\r\n1A;a=b\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n',
    trailers: '5\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nx: y\r\n\r\n',
    'leading zeros': '0005\r\nhello\r\n01a\r\nabcdefghijklmnopqrstuvwxyz\r\n00\r\n\r\n',
  }
  for (const [name, body] of Object.entries(CHUNKED))
    it(`is the same however it is cut: ${name}`, () => {
      const whole = HEAD + body
      for (let first = 0; first < whole.length; first++)
        for (const second of [first + 1, first + 2, first + 7, whole.length]) {
          const pieces = [whole.slice(0, first), whole.slice(first, second), whole.slice(second)]
          const { content, isComplete, isPersistent } = read(pieces.filter(piece => piece !== ''))
          assert.deepEqual(
            { content, isComplete, isPersistent },
            { content: 'helloabcdefghijklmnopqrstuvwxyz', isComplete: true, isPersistent: true },
            `cut at ${first} and ${second}`,
          )
        }
    })

  const FAULTS: Readonly<Record<string, string>> = {
    'a chunk that is longer than its size': '5\r\nhello!\r\n0\r\n\r\n',
    'a line feed alone after a chunk': '5\r\nhello\n0\r\n\r\n',
    'a line feed alone after a size': '5\nhello\r\n0\r\n\r\n',
    'a size that is no number': '5\r\nhello\r\nx\r\n\r\n',
    'a negative size': '-5\r\nhello\r\n0\r\n\r\n',
    'a size beyond all numbers': 'fffffffffffffffff\r\nhello\r\n0\r\n\r\n',
    'no size': '\r\nhello\r\n0\r\n\r\n',
  }
  for (const [name, body] of Object.entries(FAULTS))
    it(`has a fault: ${name}`, () => {
      for (let cut = 1; cut < HEAD.length + body.length; cut++) {
        const whole = HEAD + body
        assert.ok('fault' in read([whole.slice(0, cut), whole.slice(cut)]), `cut at ${cut}`)
      }
    })

  it('is incomplete until its last byte', () => {
    const whole = `${HEAD}5\r\nhello\r\n0\r\n\r\n`
    for (let end = 1; end < whole.length; end++)
      assert.equal(read([whole.slice(0, end)]).isComplete, false, `the first ${end} bytes`)
  })

  it('follows a long head in the same read', () => {
    const values = Object.fromEntries(
      Array.from({ length: 30 }, (_, index) => [`x-${index}`, `${index}`.repeat(200)]),
    )
    const lines = Object.entries(values).map(([name, value]) => `${name}: ${value}\r\n`)
    const content = 'c'.repeat(40_000)
    const reading = read([
      `HTTP/1.1 200 OK\r\n${lines.join('')}Content-Length: ${content.length}\r\n\r\n${content}`,
    ])
    assert.equal(reading.content, content)
    assert.equal(reading.isComplete, true)
    assert.deepEqual({ ...reading.headers }, { ...values, 'content-length': `${content.length}` })
  })

  it('is not followed by bytes of another response on a connection that is used again', () => {
    for (const body of [
      `Content-Length: 2\r\n\r\nhi`,
      'Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n',
    ]) {
      const whole = `HTTP/1.1 200 OK\r\n${body}`
      assert.equal(read([whole]).isPersistent, true)
      const { content, isComplete, isPersistent } = read([`${whole}HTTP/1.1 200 OK\r\n`])
      assert.deepEqual(
        { content, isComplete, isPersistent },
        { content: 'hi', isComplete: true, isPersistent: false },
      )
    }
  })
})
