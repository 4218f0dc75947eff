/** A sequence of random numbers in [0, 1) that the seed determines (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const METHODS = ['POST', 'POST', 'POST', 'POST', 'POST', 'GET', 'post', 'PUT', 'POST ', ' POST', 'PO\tST', '']
const TARGETS = [
  '/v1/chat/completions',
  '/v1/messages?a=b',
  '/chat/completions',
  '/v1//models/x:y',
  '/v1/x#y',
  '/v1/"<>\\^`{|}',
  '/v1/\x7f',
  '/v1/é',
  '/v1/a b',
  '*',
  'http://host/v1/x',
  '//host/v1/x',
  '',
]
const VERSIONS = [
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/2.0',
  'HTTP/1.1 ',
  'http/1.1',
  'HTTP/1.11',
  '',
]
const NAMES = [
  'host',
  'Content-Length',
  'content-length',
  'CONTENT-LENGTH',
  'Content-Length ',
  'Content_Length',
  'Transfer-Encoding',
  'transfer-encoding',
  'Transfer-Encoding ',
  'Connection',
  'Proxy-Connection',
  'Keep-Alive',
  'Upgrade',
  'Expect',
  'TE',
  'Trailer',
  'Authorization',
  'Content-Type',
  'Cookie',
  'X-Forwarded-For',
  '__proto__',
  'constructor',
  'Set-Cookie',
  "x!#$%&'*+-.^_`|~",
  '',
  'bad name',
  'bad\x00name',
  'näme',
]
const VALUES = [
  '',
  '0',
  '5',
  '05',
  '+5',
  '-5',
  '5 5',
  '5,5',
  '5, 5',
  '0x5',
  '5\x0b',
  '99999999999999999999',
  'chunked',
  'Chunked',
  'identity',
  'gzip, chunked',
  'chunked, identity',
  'xchunked',
  'chunked\x0b',
  'keep-alive',
  'Keep-Alive',
  'close',
  'CLOSE',
  'close, keep-alive',
  'upgrade',
  '100-continue',
  'trailers',
  'h2c',
  'sk-token',
  'a\tb',
  '\xe9\xff',
  'a\x00b',
  'a\rb',
  'a\nb',
  'a\x7f',
  'a\r\n b',
]
const PADDING = ['', ' ', '  ', '\t', ' \t ']
const BREAKS = ['\r\n', '\n', '\r', '\r\r\n', '\r\n\r\n', '\n\r\n', '']
const BODIES = [
  '',
  'abcde',
  '0\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\n\r\n',
  '5\r\nabcde\r\n0\r\n\r\n',
  'abcdefghij',
]

/**
 * Makes requests of which some are valid, and most have one or several of the irregularities that request smuggling uses:
 * framing headers twice or spelled otherwise, spaces, bare line ends, control characters, folded lines, damaged bytes.
 */
export function createRequestBytes(random: () => number) {
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)] as Item
  const rarely = (share: number) => random() < share

  const lineEnd = () => (rarely(0.02) ? pick(BREAKS) : '\r\n')

  function headerLine(): string {
    const space = rarely(0.02) ? pick(PADDING) : ''
    return `${pick(NAMES)}${space}:${pick(PADDING)}${pick(VALUES)}${pick(PADDING)}${lineEnd()}`
  }

  function damaged(text: string): string {
    const at = Math.floor(random() * text.length)
    const byte = String.fromCharCode(Math.floor(random() * 256))
    const kind = random()
    if (kind < 0.4) return text.slice(0, at) + byte + text.slice(at + 1)
    if (kind < 0.7) return text.slice(0, at) + byte + text.slice(at)
    return text.slice(0, at) + text.slice(at + 1)
  }

  return function requestBytes(): Buffer {
    const isOrdinary = rarely(0.5)
    const body = isOrdinary ? 'abcde' : pick(BODIES)
    const length = rarely(0.9) ? body.length : Math.floor(random() * 12)
    const line = isOrdinary
      ? 'POST /v1/chat/completions HTTP/1.1\r\n'
      : `${pick(METHODS)} ${pick(TARGETS)} ${pick(VERSIONS)}${lineEnd()}`
    const lines = [`Host: gateway${lineEnd()}`, `Content-Length: ${length}${lineEnd()}`]
    if (!isOrdinary && rarely(0.1)) lines.pop()
    if (!isOrdinary && rarely(0.05)) lines.shift()
    for (let more = Math.floor(random() * 4); more > 0; more--)
      lines.splice(Math.floor(random() * (lines.length + 1)), 0, headerLine())
    let text = `${line}${lines.join('')}${lineEnd()}${body}`
    for (let damages = rarely(0.3) ? 1 + Math.floor(random() * 3) : 0; damages > 0; damages--)
      text = damaged(text)
    return Buffer.from(text, 'latin1')
  }
}
