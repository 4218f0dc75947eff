/** A fast generator of random numbers with a seed (mulberry32): a campaign needs hundreds of millions of them. */
export function createRandom(seed: number) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return {
    /** An integer from 0 to below `bound`. */
    below: (bound: number) => Math.floor(next() * bound),
    isOneIn: (count: number) => next() * count < 1,
    pick: <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)] as T,
  }
}

export type Random = ReturnType<typeof createRandom>

const STATUS_LINES = [
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200',
  'HTTP/1.1 200 ',
  'HTTP/1.0 200 OK',
  'HTTP/1.1 204 No Content',
  'HTTP/1.1 304 Not Modified',
  'HTTP/1.1 404 N\u00f6t Found',
  'HTTP/1.1 500 x',
  'HTTP/1.1 999 x',
  'HTTP/1.1 101 Switching Protocols',
  'HTTP/1.2 200 OK',
  'HTTP/2.0 200 OK',
  'HTTP/0.9 200 OK',
  'http/1.1 200 OK',
]
const LINES = [
  'date: Mon, 16 Nov 2026 22:05:18 GMT',
  'Content-Type: application/json',
  'x-request-id:req_1',
  'x-a: 1',
  'X-A:  2 \t',
  'empty:',
  'connection: close',
  'Connection: keep-alive',
  'connection: Upgrade, close',
  'upgrade: h2c',
  'keep-alive: timeout=5',
  'set-cookie: a=b',
  'Set-Cookie: c=d',
  '__proto__: x',
  'constructor: x',
  '1: 2',
  'location: /a',
  'trailer: x',
]
/** Lines that decide about the length of the body, in pure and in hostile spellings. */
const FRAMING_LINES = [
  'content-length: 5',
  'Content-Length:5 ',
  'content-length: 05',
  'content-length: 5, 5',
  'content-length: +5',
  'content-length: 0x5',
  'content-length: 99999999999999999999',
  'content-length:',
  'transfer-encoding: chunked',
  'Transfer-Encoding:\tChunked ',
  'transfer-encoding: chunked, chunked',
  'transfer-encoding: gzip, chunked',
  'transfer-encoding: chunked, identity',
  'transfer-encoding: xchunked',
  'transfer-encoding:',
  'transfer-encoding : chunked',
]
const WORDS = [
  '\r\n',
  '\n',
  '\r',
  '\0',
  ' ',
  '\t',
  ':',
  ';',
  ',',
  '0',
  '5',
  'f',
  '\r\n\r\n',
  '0\r\n\r\n',
  '\x7f',
  '\xff',
  'chunked',
  '\r\n x',
]

const bodyText = (random: Random) =>
  Array.from({ length: random.below(12) }, () =>
    random.pick(['a', 'b', '{', '\r\n', '0', '\xe9', 'data: x\n\n']),
  ).join('')

function chunked(random: Random): string {
  let text = ''
  for (let count = random.below(4); count > 0; count--) {
    const piece = `${bodyText(random)}x`
    const size = piece.length.toString(16)
    const spelled = random.isOneIn(4) ? `0${size.toUpperCase()}` : size
    text += `${spelled}${random.isOneIn(8) ? random.pick([';a', ';a=b', ';a="b c"', ';', ' ']) : ''}\r\n${piece}\r\n`
  }
  return `${text}0\r\n${random.isOneIn(6) ? random.pick(['x: y\r\n', 'content-length: 5\r\n', ' folded\r\n']) : ''}\r\n`
}

/** A response that is valid, or nearly. */
function response(random: Random): string {
  const lines = Array.from({ length: random.below(5) }, () => random.pick(LINES))
  const framing = random.below(10)
  const content = bodyText(random)
  let body = content
  if (framing < 4) lines.push(`Content-Length: ${content.length}`)
  else if (framing < 7) {
    lines.push('Transfer-Encoding: chunked')
    body = chunked(random)
  } else if (framing < 9) lines.push(random.pick(FRAMING_LINES))
  if (random.isOneIn(12)) lines.push(random.pick(FRAMING_LINES))
  if (random.isOneIn(4)) lines.reverse()
  return `${random.pick(STATUS_LINES)}\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n${body}`
}

/** Lines in the order and the spelling of most servers. */
const PLAIN_LINES = [
  'Date: Mon, 16 Nov 2026 22:05:18 GMT',
  'Content-Type: application/json',
  'Connection: keep-alive',
  'Keep-Alive: timeout=5',
  'x-request-id: req_1',
  'Set-Cookie: a=b',
  'Server: s',
]
const PLAIN_FRAMING_LINES = [
  'Content-Length: 5 ',
  'Content-Length: 5\t',
  'Content-Length:  5',
  'Content-Length:\t5',
  'Content-Length: 5 5',
  'Content-Length: 00000000000000000005',
  'Content-Length: 18446744073709551621',
  'Transfer-Encoding: Chunked',
  'Transfer-Encoding:chunked ',
  'Transfer-Encoding: chunked\t',
  'Transfer-Encoding:\tchunked',
  'Transfer-Encoding: chunked,',
  'Transfer-Encoding: gzip',
  'Connection: close',
  'Connection: Close ',
  'Connection:\tclose',
  'Connection: close\t',
  'Connection: closed',
  'Connection: close, x',
  'Connection: upgrade',
  'Proxy-Connection: close',
  'Upgrade: h2c',
  'TE: trailers',
]
const PLAIN_STATUS_LINES = [
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200',
  'HTTP/1.1 200 ',
  'HTTP/1.1 200  two spaces',
  'HTTP/1.1 201 Created',
  'HTTP/1.1 204 No Content',
  'HTTP/1.1 205 Reset Content',
  'HTTP/1.1 304 Not Modified',
  'HTTP/1.1 429 Too Many Requests',
  'HTTP/1.1 599 x',
  'HTTP/1.1 600 x',
  'HTTP/1.1 099 x',
  'HTTP/1.1 2000 x',
  'HTTP/1.1 20 x',
]

/** A response in the spelling that is read without llhttp, or one line beside it. */
function plainResponse(random: Random): string {
  const lines = PLAIN_LINES.filter(() => !random.isOneIn(8))
  const isChunked = random.isOneIn(2)
  const content = bodyText(random)
  if (!random.isOneIn(10))
    lines.splice(
      random.below(lines.length + 1),
      0,
      isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${content.length}`,
    )
  if (random.isOneIn(3)) lines.splice(random.below(lines.length + 1), 0, random.pick(PLAIN_FRAMING_LINES))
  const status = random.isOneIn(2) ? PLAIN_STATUS_LINES[0] : random.pick(PLAIN_STATUS_LINES)
  return `${status}\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n${isChunked ? chunked(random) : content}`
}

const informational = (random: Random) =>
  random.pick([
    'HTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 3\r\n\r\n',
  ])

/** Changes the text at one place. */
function mutate(text: string, random: Random): string {
  const at = random.below(text.length + 1)
  const end = at + random.below(8)
  switch (random.below(7)) {
    case 0:
      return text.slice(0, at) + random.pick(WORDS) + text.slice(at)
    case 1:
      return text.slice(0, at) + text.slice(end)
    case 2:
      return text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + 1)
    case 3:
      return text.slice(0, end) + text.slice(at)
    case 4:
      return text.slice(0, at)
    case 5: {
      const lines = text.split('\r\n')
      const index = random.below(lines.length)
      lines.splice(random.below(lines.length), 0, lines[index] as string)
      return lines.join('\r\n')
    }
    default:
      return text.slice(0, at) + random.pick(WORDS) + text.slice(end)
  }
}

/** Changes one character of the head. */
function mutateHead(text: string, random: Random): string {
  const at = random.below(text.indexOf('\r\n\r\n') + 4)
  const changed = random.isOneIn(3) ? String.fromCharCode(random.below(256)) : random.pick(WORDS)
  return text.slice(0, at) + changed + text.slice(at + random.below(2))
}

/** The bytes of a connection, as latin1 text: a response that is mutated up to four times, perhaps with others around it. */
export function mutatedResponse(random: Random): string {
  if (random.isOneIn(2)) {
    const text = plainResponse(random)
    return random.isOneIn(2) ? text : mutateHead(text, random)
  }
  let text = response(random)
  if (random.isOneIn(6)) text = informational(random) + text
  if (random.isOneIn(6)) text += response(random)
  for (let count = random.below(5); count > 0; count--) text = mutate(text, random)
  return text
}

/** Cuts bytes into pieces as a network might. */
export function piecesOf(bytes: Buffer, random: Random): readonly Buffer[] {
  const style = random.below(6)
  if (style === 0) return [bytes]
  const pieces: Buffer[] = []
  // A whole head, and pieces of the content after it.
  const first = style < 4 ? 0 : Math.min(bytes.indexOf('\r\n\r\n') + 4 + random.below(20), bytes.length)
  if (first > 0) pieces.push(bytes.subarray(0, first))
  for (let at = first; at < bytes.length; ) {
    const size = style === 1 ? 1 : 1 + random.below(style === 2 ? 8 : 60)
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}
