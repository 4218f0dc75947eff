import { connect, createServer, type Socket } from 'node:net'

/** As a message of PostgreSQL's protocol has it: a statement without parameters. */
const COMMIT = Buffer.from('commit\0')

/**
 * Stands between a server and its database, and can be told to break: to refuse connections, to pass on nothing, or to cut a
 * connection as soon as a commit was answered, before anybody hears of it.
 */
export async function startProxy(target: URL) {
  const sockets = new Set<Socket>()
  let mode: 'pass' | 'refuse' | 'hang' | 'cut at commit' = 'pass'
  const server = createServer(client => {
    sockets.add(client)
    client.on('error', () => {})
    if (mode === 'refuse') return client.destroy()
    const upstream = connect(Number(target.port), target.hostname)
    sockets.add(upstream)
    let isCommitting = false
    upstream.on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
    client.on('data', (bytes: Buffer) => {
      isCommitting = mode === 'cut at commit' && bytes.includes(COMMIT)
      if (mode !== 'hang') upstream.write(bytes)
    })
    upstream.on('data', (bytes: Buffer) => {
      if (isCommitting) client.destroy()
      else if (mode !== 'hang') client.write(bytes)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const address = server.address()
  const cut = () => {
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    set(next: typeof mode): void {
      mode = next
      if (mode === 'refuse') cut()
    },
    close(): void {
      cut()
      server.close()
    },
  }
}
