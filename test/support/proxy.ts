import { connect, createServer, type Socket } from 'node:net'

/** A simple query of PostgreSQL's protocol: a statement without parameters. */
const COMMIT = Buffer.from('commit\0')

/**
 * A proxy between a server and its database that can be set to fail: to refuse connections, to forward
 * nothing, to buffer messages until it forwards again, even for connections closed meanwhile, to forward everything late, to
 * end each connection towards the database without ending it towards the server, or to cut a connection as soon as a commit
 * was acknowledged, before the server receives it.
 */
export type Trouble = 'refuse' | 'hang' | 'stall' | 'delay' | 'half-close' | 'cut at commit'

const DELAY_MS = 1_500

/** Writes in the order of the calls, each after its delay. */
function createLateWriter(write: (bytes: Buffer) => void) {
  const queue: Buffer[] = []
  let lastMs = 0
  return (bytes: Buffer, delayMs: number) => {
    if (delayMs === 0 && queue.length === 0) return write(bytes)
    lastMs = Math.max(lastMs, Date.now() + delayMs)
    queue.push(bytes)
    setTimeout(() => {
      const next = queue.shift()
      if (next) write(next)
    }, lastMs - Date.now())
  }
}

export async function startProxy(target: URL) {
  const sockets = new Set<Socket>()
  /** Forwards what was buffered. */
  const stalled = new Set<() => void>()
  /** Ends the connections to the database. */
  const halfClosing = new Set<() => void>()
  /** Connections whose other half was closed. */
  const deaf = new Set<Socket>()
  let mode: 'pass' | Trouble = 'pass'
  const server = createServer(client => {
    sockets.add(client)
    client.on('error', () => {})
    if (mode === 'refuse') return client.destroy()
    const upstream = connect(Number(target.port), target.hostname)
    sockets.add(upstream)
    const toUpstream = createLateWriter(bytes => {
      if (upstream.writable) upstream.write(bytes)
    })
    const toClient = createLateWriter(bytes => {
      if (client.writable) client.write(bytes)
    })
    const delayMs = () => (mode === 'delay' ? DELAY_MS : 0)
    const endUpstream = () => void upstream.end()
    halfClosing.add(endUpstream)
    let isCommitting = false
    let pendingBuffers: Buffer[] = []
    const sayKept = () => {
      for (const bytes of pendingBuffers) upstream.write(bytes)
      pendingBuffers = []
      stalled.delete(sayKept)
      if (client.destroyed) upstream.end()
    }
    const closeClient = () => {
      if (mode !== 'half-close') client.destroy()
      else deaf.add(client)
    }
    upstream.on('error', closeClient)
    client.on('close', () => {
      halfClosing.delete(endUpstream)
      if (pendingBuffers.length === 0) upstream.destroy()
    })
    upstream.on('close', closeClient)
    client.on('data', (bytes: Buffer) => {
      isCommitting = mode === 'cut at commit' && bytes.includes(COMMIT)
      if (mode === 'stall') {
        pendingBuffers.push(bytes)
        stalled.add(sayKept)
      } else if (mode === 'half-close') endUpstream()
      else if (mode !== 'hang') toUpstream(bytes, delayMs())
    })
    upstream.on('data', (bytes: Buffer) => {
      if (isCommitting) client.destroy()
      else if (mode !== 'hang') toClient(bytes, delayMs())
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
      if (mode === 'half-close') for (const endUpstream of halfClosing) endUpstream()
      else for (const client of deaf) client.destroy()
      if (mode !== 'half-close') deaf.clear()
      if (mode === 'pass') for (const sayKept of [...stalled]) sayKept()
    },
    close(): void {
      cut()
      server.close()
    },
  }
}
