import { createSocket } from 'node:dgram'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

type Credentials = { readonly username: string; readonly password: string }

type ProxyOptions = {
  readonly credentials?: Credentials
  /** Names that the proxy resolves itself. */
  readonly names?: Readonly<Record<string, string>>
  readonly tls?: { readonly cert: string; readonly key: string }
  /** The bytes that it answers with, in place of a tunnel. */
  readonly answer?: string
}

/** What all proxies here have in common: they remember their targets, and connect to them. */
async function startProxy(
  { names = {}, tls }: ProxyOptions,
  serve: (client: Socket, open: (host: string, port: number) => Promise<Socket | undefined>) => void,
) {
  const targets: string[] = []
  const sockets = new Set<Socket>()
  const track = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    return socket
  }
  const open = (host: string, port: number) => {
    targets.push(`${host}:${port}`)
    return new Promise<Socket | undefined>(resolve => {
      const upstream = track(connect(port, names[host] ?? host))
      upstream.once('connect', () => resolve(upstream)).once('error', () => resolve(undefined))
    })
  }
  const onClient = (client: Socket) => serve(track(client), open)
  const server: Server = tls ? createTlsServer(tls, onClient) : createServer(onClient)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    port,
    targets,
    close(): Promise<void> {
      for (const socket of sockets) socket.destroy()
      return new Promise(resolve => server.close(() => resolve()))
    },
  }
}

function join(client: Socket, upstream: Socket): void {
  client.pipe(upstream).pipe(client)
  client.on('close', () => upstream.destroy())
  upstream.on('close', () => client.destroy())
}

/** A proxy that serves CONNECT only. */
export const startConnectProxy = (options: ProxyOptions = {}) =>
  startProxy(options, (client, open) => {
    const { credentials, answer } = options
    const expected =
      credentials &&
      `Basic ${Buffer.from(`${credentials.username}:${credentials.password}`).toString('base64')}`
    client.once('data', async bytes => {
      if (answer !== undefined) return void client.end(answer)
      const [line = '', ...headers] = bytes.toString('latin1').split('\r\n')
      const credentials = headers.find(header => header.startsWith('proxy-authorization: '))?.slice(21)
      const [, host = '', port = ''] = /^CONNECT \[?([^\]]+?)\]?:(\d+) HTTP\/1\.1$/.exec(line) ?? []
      if (expected !== undefined && credentials !== expected)
        return void client.end('HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n')
      const upstream = await open(host, Number(port))
      if (!upstream) return void client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
      client.write('HTTP/1.1 200 Connection established\r\nx-proxy: test\r\n\r\n')
      join(client, upstream)
    })
  })

/** A proxy of SOCKS version 5. It reads a message at a time, as clients send them. */
export const startSocksProxy = (options: ProxyOptions = {}) =>
  startProxy(options, (client, open) => {
    const { credentials } = options
    const next = () => new Promise<Buffer>(resolve => client.once('data', resolve))
    const converse = async () => {
      const methods = (await next()).subarray(2)
      const method = credentials ? 2 : 0
      if (!methods.includes(method)) return void client.end(Buffer.from([5, 0xff]))
      client.write(Buffer.from([5, method]))
      if (credentials) {
        const bytes = await next()
        const nameEnd = 2 + (bytes[1] ?? 0)
        const isSame =
          bytes.toString('utf8', 2, nameEnd) === credentials.username &&
          bytes.toString('utf8', nameEnd + 1) === credentials.password
        if (!isSame) return void client.end(Buffer.from([1, 1]))
        client.write(Buffer.from([1, 0]))
      }
      const request = await next()
      const type = request[3]
      const port = request.readUInt16BE(request.length - 2)
      const host =
        type === 1
          ? request.subarray(4, 8).join('.')
          : type === 3
            ? request.toString('latin1', 5, request.length - 2)
            : (request.subarray(4, 20).toString('hex').match(/.{4}/g)?.join(':') ?? '')
      const upstream = await open(host, port)
      client.write(Buffer.from([5, upstream ? 0 : 5, 0, 1, 0, 0, 0, 0, 0, 0]))
      if (upstream) join(client, upstream)
      else client.end()
    }
    void converse()
  })

/** A DNS server with some names. Others do not exist. */
export async function startDnsServer(
  names: Readonly<Record<string, { readonly a?: string; readonly aaaa?: string }>>,
) {
  const questions: string[] = []
  const socket = createSocket('udp4')
  socket.on('message', (query, peer) => {
    const labels: string[] = []
    let at = 12
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length))
      at += 1 + length
    }
    const name = labels.join('.').toLowerCase()
    const isV6 = query.readUInt16BE(at + 1) === 28
    questions.push(`${name} ${isV6 ? 'AAAA' : 'A'}`)
    const addresses = names[name]
    const address = isV6 ? addresses?.aaaa : addresses?.a
    const data =
      address === undefined
        ? undefined
        : isV6
          ? Buffer.from([...Array.from({ length: 15 }, () => 0), 1])
          : Buffer.from(address.split('.').map(Number))
    const head = Buffer.alloc(12)
    query.copy(head, 0, 0, 2)
    head.writeUInt16BE(addresses ? 0x8180 : 0x8183, 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(data ? 1 : 0, 6)
    const record = data
      ? Buffer.concat([Buffer.from([0xc0, 12, 0, isV6 ? 28 : 1, 0, 1, 0, 0, 0, 0, 0, data.length]), data])
      : Buffer.alloc(0)
    socket.send(Buffer.concat([head, query.subarray(12, at + 5), record]), peer.port, peer.address)
  })
  await new Promise<void>(resolve => socket.bind(0, '127.0.0.1', () => resolve()))
  return {
    address: `127.0.0.1:${socket.address().port}`,
    questions,
    close: () => new Promise<void>(resolve => socket.close(() => resolve())),
  }
}
