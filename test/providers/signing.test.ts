import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { fieldValues, fill, headersOf, providers, signerOf } from '../../src/providers/index.ts'
import { openUpstream } from '../support/upstream.ts'

const bedrock = providers.find(({ type }) => type === 33)
assert.ok(bedrock)

const KEY = 'AKIDEXAMPLE|wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY|eu-central-1'
const AT = new Date('2026-03-04T05:06:07Z')
const BODY = Buffer.from('{"messages":[]}')

const sha256 = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

function signed(key: string, url: string, headers: Record<string, string> = {}) {
  assert.ok(bedrock)
  const sign = signerOf(bedrock, key, fieldValues(bedrock, key, {}))
  assert.ok(sign)
  return sign({ method: 'POST', url: new URL(url), headers, body: BODY, at: AT })
}

describe('a request that is signed for AWS', () => {
  it('has a signature over its re-encoded path, its host, type, time and body', async () => {
    const url = 'https://bedrock-runtime.eu-central-1.amazonaws.com/model/us.anthropic.claude-v1%3A0/converse'
    const proof = await signed(KEY, url, { 'content-type': 'application/json', 'x-client-request-id': 'r' })
    const names = 'content-type;host;x-amz-content-sha256;x-amz-date'
    const canonical = [
      'POST',
      '/model/us.anthropic.claude-v1%253A0/converse',
      '',
      'content-type:application/json',
      'host:bedrock-runtime.eu-central-1.amazonaws.com',
      `x-amz-content-sha256:${sha256(BODY)}`,
      'x-amz-date:20260304T050607Z',
      '',
      names,
      sha256(BODY),
    ].join('\n')
    const scope = '20260304/eu-central-1/bedrock/aws4_request'
    const text = ['AWS4-HMAC-SHA256', '20260304T050607Z', scope, sha256(canonical)].join('\n')
    const secret = KEY.split('|')[1]
    const parts = ['20260304', 'eu-central-1', 'bedrock', 'aws4_request']
    const key = parts.reduce<string | Buffer>((derivedKey, part) => hmac(derivedKey, part), `AWS4${secret}`)
    const signature = hmac(key, text).toString('hex')
    assert.deepEqual(proof, {
      'x-amz-date': '20260304T050607Z',
      'x-amz-content-sha256': sha256(BODY),
      authorization: `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/${scope}, SignedHeaders=${names}, Signature=${signature}`,
    })
  })

  it('contains the session token of a temporary key, and never the secret', async () => {
    const proof = await signed('ASIAEXAMPLE|secret|us-east-1|lent', 'https://h/model/m/converse')
    assert.equal(proof['x-amz-security-token'], 'lent')
    assert.doesNotMatch(JSON.stringify(proof), /secret/)
  })

  it('is not signed if the key is an API key, which is sent itself', () => {
    assert.equal(signerOf(bedrock, 'ABSKxxxx|us-west-2', {}), undefined)
    assert.deepEqual(headersOf(bedrock, 'ABSKxxxx|us-west-2', {}), { authorization: 'Bearer ABSKxxxx' })
    assert.deepEqual(headersOf(bedrock, KEY, {}), {})
  })

  it('uses the region of the key', () => {
    const values = { ...fieldValues(bedrock, KEY, {}), model: 'a:0' }
    assert.equal(
      fill(`${bedrock.baseUrl}/model/{model}/converse`, values),
      'https://bedrock-runtime.eu-central-1.amazonaws.com/model/a%3A0/converse',
    )
  })
})

describe('a signed request that is sent', () => {
  const receivedRequests: { headers: IncomingHttpHeaders; body: string }[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    receivedRequests.push({ headers: request.headers, body: Buffer.concat(chunks).toString() })
    response.end('{}')
  })
  const upstream = openUpstream(16)
  const timeouts = { connectMs: 5_000, firstByteMs: 5_000, idleMs: 5_000, totalMs: 5_000 }
  const ask = () => ({
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/model/a%3A0/converse`),
    headers: { 'content-type': 'application/json' },
    body: BODY,
    timeouts,
    isStream: false,
  })

  before(() => new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve)))
  after(async () => {
    await upstream.close()
    server.close()
  })

  it('has a signature over the exact bytes that are sent', async () => {
    const sign = async ({ body }: { body: Buffer }) => ({ 'x-proof': sha256(body) })
    const outcome = await upstream.exchange({ ...ask(), sign }).outcome
    assert.equal(outcome.kind, 'buffered')
    assert.equal(receivedRequests.at(-1)?.headers['x-proof'], sha256(receivedRequests.at(-1)?.body ?? ''))
    assert.equal(receivedRequests.at(-1)?.headers['content-type'], 'application/json')
  })

  it('is not sent if it cannot be signed, or if its client has disconnected', async () => {
    const before = receivedRequests.length
    const failing = upstream.exchange({ ...ask(), sign: () => Promise.reject(new Error('no key')) })
    assert.deepEqual(await failing.outcome, {
      kind: 'failure',
      reason: 'invalid',
      message: 'no key',
      wasSent: false,
    })
    const abortedExchange = upstream.exchange({ ...ask(), sign: async () => ({}) })
    abortedExchange.abort()
    assert.equal((await abortedExchange.outcome).kind, 'failure')
    assert.equal(receivedRequests.length, before)
  })
})
