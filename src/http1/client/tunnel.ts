import { isIP, connect as openTcp, type Socket } from 'node:net'
import { connect as openTls, type SecureContext } from 'node:tls'
import { Http1Error } from './errors.ts'
import { openConnect, openSocks, type ProxyHandshake } from './proxy-handshake.ts'
import type { ClientProxy, ClientRoute } from './route.ts'
import { type SocketReading, type SocketRequest, tcpOptions, tlsOptions } from './socket-options.ts'

const HANDSHAKES = { http: openConnect, socks5: openSocks } as const

/** Passes the data of a socket on in the shared buffer. Only a socket that connects itself can read into it directly. */
function readInto(socket: Socket, { buffer, onRead }: SocketReading): void {
  socket.on('data', (bytes: Buffer) => {
    for (let start = 0; start < bytes.length; start += buffer.length) {
      const length = bytes.copy(buffer, 0, start)
      onRead(length)
    }
  })
}

/** The first address of a name, for a proxy that must not resolve it. */
function resolveHere(
  { endpoint: { hostname }, resolver }: SocketRequest,
  onResult: (error: Error | null, address: string) => void,
): void {
  if (isIP(hostname) !== 0 || resolver.lookup === undefined) {
    onResult(null, hostname)
    return
  }
  resolver.lookup(hostname, { all: true }, (error, addresses) => {
    const [first] = Array.isArray(addresses) ? addresses : []
    if (error === null && first !== undefined) onResult(null, first.address)
    else onResult(error ?? new Http1Error('CLOSED', `${hostname} has no address`), '')
  })
}

/**
 * Connects to a server through a proxy. Returns the socket to the proxy; `onOpen` gets the socket to the server, which is
 * another one with TLS.
 */
export function openTunnel(
  request: SocketRequest,
  proxy: ClientProxy,
  contextOf: (route: ClientRoute | undefined) => SecureContext,
): Socket {
  const { endpoint, connectMs, reading, route } = request
  const toProxy = tcpOptions(proxy.endpoint, proxy.resolver)
  // The certificates of the route are for the server. A proxy with TLS is checked by the default ones.
  const socket = proxy.endpoint.isTls
    ? openTls({ ...toProxy, ...tlsOptions(proxy.endpoint, contextOf(undefined), undefined) })
    : openTcp(toProxy)
  let isConnected = false
  let isOver = false

  const timer = setTimeout(
    () => fail(new Http1Error('CONNECT_TIMEOUT', `connect timeout through proxy ${proxy.label}`)),
    connectMs,
  )

  function fail(error: Error): void {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    socket.destroy()
    request.onError(error)
  }

  function failProxy(error: Error & { code?: string }): void {
    const why = error.code ?? error.message
    fail(
      isConnected
        ? new Http1Error('PROXY_MALFORMED', `proxy ${proxy.label} broke the connection: ${why}`)
        : new Http1Error('PROXY_UNREACHABLE', `proxy ${proxy.label} cannot be reached: ${why}`),
    )
  }

  function finish(open: Socket): void {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    open.on('error', request.onError).on('end', request.onEnd).on('close', request.onClose)
    request.onOpen(open)
    if (reading !== undefined) {
      readInto(open, reading)
      open.resume()
    }
  }

  function startTls(): void {
    const { hostname } = endpoint
    const secure = openTls({
      socket,
      host: hostname,
      ...tlsOptions(endpoint, contextOf(route), request.session),
    })
    secure
      .on('session', request.onSession)
      .on('error', fail)
      .once('secureConnect', () => finish(secure))
  }

  function converse(handshake: ProxyHandshake): void {
    const onData = (bytes: Buffer) => {
      try {
        const next = handshake.read(bytes)
        if (next === undefined) return
        if (next !== 'open') return void socket.write(next)
        socket.off('data', onData)
        // What arrives from here on belongs to the server.
        socket.pause()
        if (endpoint.isTls) startTls()
        else finish(socket)
      } catch (error) {
        fail(error as Error)
      }
    }
    socket.on('data', onData)
    socket.write(handshake.opening)
  }

  function askFor(hostname: string): void {
    if (isOver) return
    try {
      converse(HANDSHAKES[proxy.kind]({ hostname, port: endpoint.port }, proxy))
    } catch (error) {
      fail(error as Error)
    }
  }

  return socket
    .once(proxy.endpoint.isTls ? 'secureConnect' : 'connect', () => {
      isConnected = true
      if (!proxy.resolvesHere) askFor(endpoint.hostname)
      else
        resolveHere(request, (error, address) => {
          if (error === null) askFor(address)
          else fail(error)
        })
    })
    .on('error', failProxy)
    .on('end', () => failProxy(new Error('closed before the tunnel was open')))
    .on('close', () => failProxy(new Error('closed before the tunnel was open')))
}
