import { ROOT_TOKEN } from './gateway.ts'
import { openClient } from './http1.ts'

export const post = (key: string, body: object, headers = '') => {
  const text = JSON.stringify(body)
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${headers}Content-Length: ${text.length}\r\n\r\n${text}`
}
export const get = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ROOT_TOKEN}\r\n\r\n`
export const question = (model: string, more = {}) => ({
  model,
  max_tokens: 20,
  messages: [{ role: 'user', content: 'Hi' }],
  ...more,
})

/** Sends a request on a connection of its own, and reads until the server closes it. */
export async function askOnce(port: number, bytes: string): Promise<string> {
  const { socket, text, closed } = await openClient(port)
  socket.write(bytes)
  await closed
  return text()
}

export const CLOSES = /^HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*connection: close\r\n/i
