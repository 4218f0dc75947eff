import { connect, createServer, type Socket } from 'node:net'

/** A simple query of PostgreSQL's protocol: a statement without parameters. */
const COMMIT = Buffer.from('commit\0')

/**
 * A proxy between a server and its database that can be set to fail: to refuse connections, to forward
 * nothing, to buffer messages until it forwards again, even for connections closed meanwhile, or to cut a
 * connection as soon as a commit was acknowledged, before the server receives it.
 */
export type Trouble = 'refuse' | 'hang' | 'stall' | 'cut at commit'

export async function startProxy(target: URL) {
  const sockets = new Set<Socket>()
  /** Forwards what was buffered. */
  const stalled = new Set<() => void>()
  let mode: 'pass' | Trouble = 'pass'
  const server = createServer(client => {
    sockets.add(client)
    client.on('error', () => {})
    if (mode === 'refuse') return client.destroy()
    const upstream = connect(Number(target.port), target.hostname)
    sockets.add(upstream)
    let isCommitting = false
    let kept: Buffer[] = []
    const sayKept = () => {
      for (const bytes of kept) upstream.write(bytes)
      kept = []
      stalled.delete(sayKept)
      if (client.destroyed) upstream.end()
    }
    upstream.on('error', () => client.destroy())
    client.on('close', () => {
      if (kept.length === 0) upstream.destroy()
    })
    upstream.on('close', () => client.destroy())
    client.on('data', (bytes: Buffer) => {
      isCommitting = mode === 'cut at commit' && bytes.includes(COMMIT)
      if (mode === 'stall') {
        kept.push(bytes)
        stalled.add(sayKept)
      } else if (mode !== 'hang') upstream.write(bytes)
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
      if (mode === 'pass') for (const sayKept of [...stalled]) sayKept()
    },
    close(): void {
      cut()
      server.close()
    },
  }
}
