import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
// The code that the OpenTelemetry project generates from its published schema.
import schema from '@opentelemetry/otlp-transformer/build/src/generated/root.js'

// biome-ignore lint/suspicious/noExplicitAny: the generated messages have no common type
type Json = any

type MessageType = {
  decode(bytes: Uint8Array): Json
  encode(message: Json): { finish(): Uint8Array }
  verify(message: Json): string | null
  fromObject(object: Json): Json
  toObject(message: Json, options: Json): Json
}

const { trace, metrics } = (schema as Json).opentelemetry.proto.collector
const REQUESTS: Readonly<Record<string, MessageType>> = {
  '/v1/traces': trace.v1.ExportTraceServiceRequest,
  '/v1/metrics': metrics.v1.ExportMetricsServiceRequest,
}

const IDS = new Set(['traceId', 'spanId', 'parentSpanId'])

/** Ids are bytes in protobuf and hexadecimal digits in JSON. */
function withIds(value: Json, convert: (id: Json) => Json): Json {
  if (Array.isArray(value)) return value.map(each => withIds(each, convert))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      IDS.has(name) ? convert(member) : withIds(member, convert),
    ]),
  )
}

/** An empty list is an absent one. */
function withoutEmpty(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutEmpty)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, member]) => !(Array.isArray(member) && member.length === 0))
      .map(([name, member]) => [name, withoutEmpty(member)]),
  )
}

const plain = (type: MessageType, message: Json) =>
  withIds(type.toObject(message, { longs: String, bytes: Array }), id => Buffer.from(id).toString('hex'))

/** Decodes a request strictly: a field that the schema does not have, or of another type, fails. */
function decode(type: MessageType, contentType: string, body: Buffer): Json {
  if (contentType === 'application/x-protobuf') {
    const message = type.decode(body)
    assert.equal(type.verify(message), null)
    // Unknown fields would be missing in the second encoding.
    assert.equal(type.encode(message).finish().length, body.length)
    return plain(type, message)
  }
  assert.equal(contentType, 'application/json')
  const json = JSON.parse(body.toString())
  const object = plain(type, type.fromObject(withIds(json, id => [...Buffer.from(id, 'hex')])))
  assert.deepEqual(object, withoutEmpty(json))
  return object
}

const attributesOf = (pairs: Json[] = []): Record<string, Json> =>
  Object.fromEntries(
    pairs.map(({ key, value }) => {
      const [[type, content]] = Object.entries(value) as [[string, Json]]
      return [key, type === 'intValue' ? Number(content) : content]
    }),
  )

export type ReceivedSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly traceState: string | undefined
  readonly name: string
  readonly kind: number
  readonly startNs: bigint
  readonly endNs: bigint
  readonly attributes: Readonly<Record<string, Json>>
  readonly status: { readonly code: number; readonly message?: string } | undefined
  readonly resource: Readonly<Record<string, Json>>
}

const spansOf = (request: Json): ReceivedSpan[] =>
  request.resourceSpans.flatMap(({ resource, scopeSpans }: Json) =>
    scopeSpans.flatMap(({ spans }: Json) =>
      spans.map((span: Json) => ({
        ...span,
        startNs: BigInt(span.startTimeUnixNano),
        endNs: BigInt(span.endTimeUnixNano),
        attributes: attributesOf(span.attributes),
        resource: attributesOf(resource.attributes),
      })),
    ),
  )

type Post = { readonly path: string; readonly headers: IncomingHttpHeaders; readonly message: Json }

type Answering = { readonly status: number; readonly headers?: Readonly<Record<string, string>> }

/** A receiver of OTLP/HTTP. A request that does not decode by the schema gets 400, and `faults` says why. */
export async function startOtlpReceiver(port = 0) {
  const posts: Post[] = []
  const faults: string[] = []
  let requests = 0
  let answering: Answering = { status: 200 }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    requests += 1
    const { status, headers } = answering
    if (status !== 200) {
      response.writeHead(status, headers).end()
      return
    }
    const path = new URL(request.url ?? '/', 'http://x').pathname
    const type = Object.entries(REQUESTS).find(([name]) => path.endsWith(name))?.[1]
    const isCompressed = request.headers['content-encoding'] === 'gzip'
    try {
      assert.ok(type, path)
      const body = isCompressed ? gunzipSync(Buffer.concat(chunks)) : Buffer.concat(chunks)
      posts.push({
        path,
        headers: request.headers,
        message: decode(type, request.headers['content-type'] ?? '', body),
      })
      response.writeHead(200, { 'content-type': request.headers['content-type'] }).end()
    } catch (error) {
      faults.push(String(error))
      response.writeHead(400).end()
    }
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${address.port}`,
    port: address.port,
    posts,
    faults,
    /** All requests, including those that were answered with an error. */
    requests: () => requests,
    answer(next: Answering): void {
      answering = next
    },
    spans: () =>
      posts.filter(({ path }) => path.endsWith('/v1/traces')).flatMap(({ message }) => spansOf(message)),
    /** The metrics of the last report, by name. */
    metrics(): ReadonlyMap<string, Json> {
      const last = posts.findLast(({ path }) => path.endsWith('/v1/metrics'))
      const all = last?.message.resourceMetrics.flatMap(({ scopeMetrics }: Json) =>
        scopeMetrics.flatMap((scope: Json) => scope.metrics),
      )
      return new Map((all ?? []).map((metric: Json) => [metric.name, metric]))
    },
    labelsOf: attributesOf,
    async close(): Promise<void> {
      server.close()
      server.closeAllConnections()
    },
  }
}

export type OtlpReceiver = Awaited<ReturnType<typeof startOtlpReceiver>>
