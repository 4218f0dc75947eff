import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Busboy } from '@fastify/busboy'
import { partsOf } from '../../src/wire/multipart-parts.ts'
import { fc } from '../support/properties.ts'

const BOUNDARY = '----b0undary'
const CONTENT_TYPE = `multipart/form-data; boundary=${BOUNDARY}`
const MAX_PARTS = 20

type Part = { readonly name: string; readonly file?: { readonly name: string; readonly type: string } }
type Read = Part & { readonly content: string }

/** Fields and files, each in order: the general parser reports a file when it ends. */
const sorted = (parts: readonly Read[] | undefined) =>
  parts && [...parts.filter(({ file }) => file === undefined), ...parts.filter(({ file }) => file)]

/** The parts of a body as the general parser reads them; undefined: it refuses the body. */
function readByBusboy(body: Buffer): Promise<readonly Read[] | undefined> {
  return new Promise(resolve => {
    const parts: Read[] = []
    const busboy = new Busboy({ headers: { 'content-type': CONTENT_TYPE } })
    busboy.on('field', (name, content) => parts.push({ name, content }))
    busboy.on('file', (name, stream, fileName, _encoding, type) => {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () =>
        parts.push({
          name,
          file: { name: fileName, type },
          content: Buffer.concat(chunks).toString('latin1'),
        }),
      )
    })
    busboy.on('error', () => resolve(undefined))
    busboy.on('finish', () => resolve(sorted(parts)))
    busboy.end(body)
  })
}

/** The same by `partsOf`, with the body in chunks of this size. */
function readInChunks(body: Buffer, size: number): readonly Read[] | undefined {
  const chunks: Buffer[] = []
  for (let from = 0; from < body.length; from += size) chunks.push(body.subarray(from, from + size))
  return partsOf(chunks, BOUNDARY, MAX_PARTS)?.map(({ content, ...part }) => ({
    ...part,
    content: Buffer.concat(content).toString(part.file ? 'latin1' : 'utf8'),
  }))
}

/** The type of a file of which none is written. */
const DEFAULT_TYPE = 'text/plain'

function encodePart({ name, file, content }: Read): string {
  const type = !file || file.type === DEFAULT_TYPE ? '' : `\r\nContent-Type: ${file.type}`
  const fileName = file ? `; filename="${file.name}"` : ''
  return `Content-Disposition: form-data; name="${name}"${fileName}${type}\r\n\r\n${content}`
}

const bodyOf = (parts: readonly Read[], end = '--\r\n') =>
  Buffer.from(
    `${parts.map(part => `--${BOUNDARY}\r\n${encodePart(part)}\r\n`).join('')}--${BOUNDARY}${end}`,
    'latin1',
  )

const word = fc.stringMatching(/^[ !#-$&-.0-[\]-~]{1,12}$/)
/** Text with line ends and parts of the delimiter. */
const fieldContent = fc
  .array(fc.constantFrom('a', ' ', '\r', '\n', '\r\n', '--', '-', '\r\n--', BOUNDARY.slice(0, 5), '"', ':'), {
    maxLength: 12,
  })
  .map(pieces => pieces.join(''))
const fileContent = fc.uint8Array({ maxLength: 40 }).map(bytes => Buffer.from(bytes).toString('latin1'))
const plain = { noNullPrototype: true }
const fileOf = fc.record(
  { name: word, type: fc.constantFrom('audio/wav', DEFAULT_TYPE, 'text/x-a.b+c') },
  plain,
)
const field: fc.Arbitrary<Read> = fc.record({ name: word, content: fieldContent }, plain)
const file: fc.Arbitrary<Read> = fc.record(
  { name: word, file: fileOf, content: fc.oneof(fileContent, fieldContent) },
  plain,
)
const form = fc.array(fc.oneof(field, file), { minLength: 1, maxLength: 5 })

/** A byte of a body is replaced, removed or repeated. */
type Change = { readonly at: number; readonly by: string; readonly removes: number }
const changes: fc.Arbitrary<readonly Change[]> = fc.array(
  fc.record({
    at: fc.nat(400),
    by: fc.constantFrom(
      '',
      '\r',
      '\n',
      '\r\n',
      '-',
      '--',
      '"',
      ';',
      ':',
      ' ',
      '%',
      '\\',
      '\0',
      'é',
      BOUNDARY,
    ),
    removes: fc.nat(3),
  }),
  { maxLength: 3 },
)

function changed(body: Buffer, all: readonly Change[]): Buffer {
  let text = body.toString('latin1')
  for (const { at, by, removes } of all) {
    const from = at % (text.length + 1)
    text = `${text.slice(0, from)}${by}${text.slice(from + removes)}`
  }
  return Buffer.from(text, 'latin1')
}

/** The general parser shortens these to nothing, so `formInMemory` does not accept them. */
const isPath = (parts: readonly Read[]) => parts.some(({ file }) => file && /^\.{1,2}$/.test(file.name))

describe('the parts of a multipart body', () => {
  it('are those of the general parser, for any form and chunks', () =>
    fc.assert(
      fc.asyncProperty(form, fc.integer({ min: 1, max: 60 }), async (parts, size) => {
        fc.pre(!isPath(parts))
        const body = bodyOf(parts)
        assert.deepEqual(readInChunks(body, size), parts)
        assert.deepEqual(await readByBusboy(body), sorted(parts))
      }),
    ))

  it('are those of the general parser, or left to it, for any damaged form', () =>
    fc.assert(
      fc.asyncProperty(form, changes, fc.integer({ min: 1, max: 60 }), async (parts, all, size) => {
        const body = changed(bodyOf(parts), all)
        const read = readInChunks(body, size)
        if (read === undefined || isPath(read)) return
        assert.deepEqual(await readByBusboy(body), sorted(read))
      }),
      { numRuns: process.env.SLUICE_CAMPAIGN === undefined ? 500 : 200_000 },
    ))

  it('may end with or without a line end, and nothing may follow', () => {
    const parts = [{ name: 'a', content: 'b' }]
    for (const end of ['--', '--\r\n']) assert.deepEqual(readInChunks(bodyOf(parts, end), 1_000), parts)
    for (const end of ['', '\r\n', '-', '--\r', '--x', '--\r\nx'])
      assert.equal(readInChunks(bodyOf(parts, end), 1_000), undefined, JSON.stringify(end))
  })

  it('are left to the general parser if there are more than the maximum', () => {
    const of = (count: number) => Array.from({ length: count }, () => ({ name: 'a', content: '' }))
    assert.equal(readInChunks(bodyOf(of(MAX_PARTS)), 1_000)?.length, MAX_PARTS)
    assert.equal(readInChunks(bodyOf(of(MAX_PARTS + 1)), 1_000), undefined)
  })

  it('are left to the general parser with any other head', () => {
    for (const head of [
      'Content-Disposition: form-data; name=a',
      'Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain',
      'Content-Disposition: form-data; name="a"; filename="b/c"\r\nContent-Type: text/plain',
      'Content-Disposition: form-data; name="a"; filename="b"\r\nContent-Type: text/plain; charset=latin1',
      'Content-Disposition: form-data; name="a"; filename*=utf-8\'\'b\r\nContent-Type: text/plain',
      'Content-Disposition: form-data; name="a%22"',
      'Content-Disposition: form-data; name="a\\"b"',
      'Content-Disposition: form-data; name=""',
      'Content-Type: text/plain\r\nContent-Disposition: form-data; name="a"; filename="b"',
      'Content-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: base64',
      'Content-Disposition:form-data; name="a"',
    ]) {
      const body = Buffer.from(`--${BOUNDARY}\r\n${head}\r\n\r\nx\r\n--${BOUNDARY}--\r\n`)
      assert.equal(readInChunks(body, 1_000), undefined, head)
    }
  })
})
