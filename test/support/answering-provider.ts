import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** How a provider responds to a request. */
export type Answer = (response: ServerResponse) => void

/** A non-streamed response of these bytes. */
export const whole =
  (body: string | Buffer, { status = 200, type = 'application/json' } = {}): Answer =>
  response => {
    response.writeHead(status, { 'content-type': type })
    response.end(body)
  }

/** A stream of these pieces, each a separate chunk. */
export const streamed =
  (pieces: readonly (string | Buffer)[], type = 'text/event-stream'): Answer =>
  response => {
    response.writeHead(200, { 'content-type': type })
    for (const piece of pieces) response.write(piece)
    response.end()
  }

/** A provider whose response depends on the model name, in the body or in the path. */
export async function openAnsweringProvider() {
  const answers = new Map<string, Answer>()
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const requestText = `${request.url} ${Buffer.concat(chunks)}`
    const model = /answer-\d+/.exec(requestText)?.[0] ?? ''
    const answer = answers.get(model)
    if (answer) answer(response)
    else response.writeHead(404).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** The name of a model that gets this response. */
    answering(answer: Answer): string {
      const model = `answer-${answers.size}`
      answers.set(model, answer)
      return model
    },
    close(): void {
      server.close()
      server.closeAllConnections()
    },
  }
}

export type AnsweringProvider = Awaited<ReturnType<typeof openAnsweringProvider>>
