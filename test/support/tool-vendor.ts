import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// biome-ignore lint/suspicious/noExplicitAny: requests are whatever the gateway sends
export type SentBody = any
export type VendorAnswer = { readonly type?: string; readonly body: string; readonly isCut?: boolean }

export const json = (value: unknown): VendorAnswer => ({ body: JSON.stringify(value) })

/**
 * Server-sent events, each with its type as the event's name; `isCut`: the connection breaks after the last
 * of them.
 */
export const events = (list: readonly Readonly<Record<string, unknown>>[], isCut = false): VendorAnswer => ({
  type: 'text/event-stream',
  body: list
    .map(each => `${each.type ? `event: ${each.type}\n` : ''}data: ${JSON.stringify(each)}\n\n`)
    .join(''),
  isCut,
})

/** A vendor that runs tools: records the bodies it receives, and responds as a test sets it. */
export async function startToolVendor() {
  const bodies: SentBody[] = []
  const texts: string[] = []
  let answer: (body: SentBody) => VendorAnswer | Promise<VendorAnswer> = () => json({})
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', async () => {
      const text = Buffer.concat(chunks).toString('utf8')
      const body = JSON.parse(text)
      texts.push(text)
      bodies.push(body)
      const { type = 'application/json', body: responseBody, isCut } = await answer(body)
      response.writeHead(200, { 'content-type': type })
      response.write(responseBody)
      if (isCut) setImmediate(() => response.destroy())
      else response.end()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    /** The same bodies, byte for byte. */
    texts,
    /** Sets the response from now on, and clears the recorded requests. */
    answers(next: typeof answer): void {
      answer = next
      bodies.length = 0
      texts.length = 0
    },
    close: () => server.close(),
  }
}

export type ToolVendor = Awaited<ReturnType<typeof startToolVendor>>
