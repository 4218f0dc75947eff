import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createHeaderParser, hasToken } from '../../src/http1/header-lines.ts'

const parseHeaderLines = createHeaderParser()

const parse = (...lines: string[]) =>
  parseHeaderLines(`${lines.map(line => `${line}\r\n`).join('')}\r\n`, 0, 5)
const headersOf = (...lines: string[]) => {
  const parsed = parse(...lines)
  assert.ok(typeof parsed === 'object', `refused: ${parsed}`)
  return { ...parsed.headers }
}

describe('header lines', () => {
  it('have lower-case names, and values without the spaces around them', () => {
    assert.deepEqual(headersOf('X-One: 1', 'x-two:\t 2 \t', 'X-Three:'), {
      'x-one': '1',
      'x-two': '2',
      'x-three': '',
    })
    assert.deepEqual(headersOf(), {})
  })

  it('are joined like those of node:http when a name is repeated', () => {
    assert.deepEqual(headersOf('Set-Cookie: a=1', 'set-cookie: b=2', 'x: 1', 'X: 2', 'cookie: c'), {
      'set-cookie': ['a=1', 'b=2'],
      x: '1, 2',
      cookie: 'c',
    })
    assert.deepEqual(headersOf('content-type: a', 'content-type: b', 'cookie: c', 'cookie: d'), {
      'content-type': 'a',
      cookie: 'c; d',
    })
  })

  it('may be named like a property of every object', () => {
    const parsed = parse('__proto__: 1', 'constructor: 2', 'toString: 3')
    assert.ok(typeof parsed === 'object')
    assert.deepEqual(Object.entries(parsed.headers), [
      ['__proto__', '1'],
      ['constructor', '2'],
      ['tostring', '3'],
    ])
    assert.equal((parsed.headers as { hasOwnProperty?: unknown }).hasOwnProperty, undefined)
  })

  it('give the length of the body', () => {
    const framingOf = (...lines: string[]) => {
      const parsed = parse(...lines)
      return typeof parsed === 'object' ? [parsed.contentLength, parsed.isChunked] : parsed
    }
    assert.deepEqual(framingOf(), [undefined, false])
    assert.deepEqual(framingOf('content-length: 012'), [12, false])
    assert.deepEqual(framingOf('transfer-encoding: Chunked'), [undefined, true])
  })

  for (const lines of [
    ['content-length: 1', 'content-length: 1'],
    ['content-length: 1', 'Transfer-Encoding: chunked'],
    ['transfer-encoding: chunked', 'content-length: 1'],
    ['transfer-encoding: chunked', 'transfer-encoding: chunked'],
    ['transfer-encoding: gzip, chunked'],
    ['transfer-encoding: identity'],
    ['transfer-encoding:'],
    ['content-length: +1'],
    ['content-length: 0x1'],
    ['content-length: 1, 1'],
    ['content-length: 1 1'],
    ['content-length:'],
    ['content-length: 1234567890123456'],
  ])
    it(`are refused for the ambiguous length of ${JSON.stringify(lines)}`, () => {
      assert.equal(parse(...lines), 'framing')
    })

  for (const line of [
    'no colon',
    ': no name',
    'a : space before the colon',
    ' a: folded',
    '\ta: folded',
    'a: 1\r\n folded',
    'a: 1\rb: 2',
    'a: 1\nb: 2',
    'a: 1\r\r\nb: 2',
    'a: \0',
    'a: \x7f',
    'a: \x1b',
    'a\0b: 1',
    'ä: 1',
    'a(b): 1',
    '',
  ])
    it(`are refused if one is ${JSON.stringify(line)}`, () => {
      assert.equal(parse('x: 1', line, 'y: 2'), 'malformed')
    })

  it('are refused if there are too many, and if the head is not complete', () => {
    assert.equal(parse('a: 1', 'a: 1', 'a: 1', 'a: 1', 'a: 1', 'a: 1'), 'too_many')
    assert.equal(parseHeaderLines('a: 1\r\n', 0, 5), 'malformed')
    assert.equal(parseHeaderLines('a: 1\r\nxx', 0, 5), 'malformed')
    assert.equal(parseHeaderLines('', 0, 5), 'malformed')
  })

  it('count the lines of host', () => {
    const parsed = parse('host: a', 'host: b')
    assert.ok(typeof parsed === 'object')
    assert.equal(parsed.hostLines, 2)
  })

  it('have tokens, in any case and with spaces around them', () => {
    assert.ok(hasToken('close', 'close'))
    assert.ok(hasToken('Keep-Alive , CLOSE', 'close'))
    assert.ok(!hasToken('closed', 'close'))
    assert.ok(!hasToken(undefined, 'close'))
  })
})
