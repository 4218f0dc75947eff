import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { it } from 'node:test'
import { describeOverServers, suiteGateway } from '../../support/gateway.ts'

describeOverServers('a request whose framing a proxy may interpret differently', http => {
  const gateway = suiteGateway({ engine: 'sqlite', http })

  /** All bytes received until the connection ends. */
  const send = (head: string, body: string) =>
    new Promise<string>((resolve, reject) => {
      const { hostname, port } = new URL(gateway.url)
      const socket = connect(Number(port), hostname)
      const chunks: Buffer[] = []
      socket.on('data', (chunk: Buffer) => chunks.push(chunk))
      socket.on('error', reject)
      socket.on('close', () => resolve(Buffer.concat(chunks).toString()))
      socket.write(`${head}\r\n\r\n${body}`)
    })
  const CHUNKS = '2\r\n{}\r\n0\r\n\r\n'
  const post = (version: string, coding: string, more = '') =>
    send(
      `POST /v1/chat/completions HTTP/${version}\r\nhost: x\r\nconnection: close\r\n${more}transfer-encoding: ${coding}`,
      CHUNKS,
    )

  it('by a transfer coding beside chunked is 501, and the connection ends', async () => {
    for (const coding of ['gzip, chunked', 'identity, chunked', 'chunked, chunked', 'deflate,chunked'])
      assert.match(
        await post('1.1', coding),
        /^HTTP\/1\.1 (?:501|400) .*\r\nConnection: close\r\n\r\n$/s,
        coding,
      )
    assert.match(await post('1.1', 'gzip, chunked'), /^HTTP\/1\.1 501 /)
    assert.match(await post('1.1', 'chunked', 'transfer-encoding: gzip\r\n'), /^HTTP\/1\.1 (?:501|400) /)
  })

  it('by chunks in HTTP/1.0 is 400, and the connection ends', async () => {
    assert.match(await post('1.0', 'chunked'), /^HTTP\/1\.1 400 .*\r\nConnection: close\r\n\r\n$/s)
  })

  it('is served if it is plain chunked', async () => {
    for (const coding of ['chunked', 'Chunked', ' chunked '])
      assert.match(await post('1.1', coding), /^HTTP\/1\.1 401 /, coding)
  })
})
