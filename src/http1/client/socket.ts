import { connect as openTcp, type Socket } from 'node:net'
import { createSecureContext, connect as openTls, type SecureContext } from 'node:tls'
import { Http1Error } from './errors.ts'
import type { ClientRoute } from './route.ts'
import { type SocketRequest, tcpOptions, tlsOptions } from './socket-options.ts'
import { openTunnel } from './tunnel.ts'

/**
 * Opens TCP and TLS sockets. The returned socket is the one to destroy until `onOpen` names another.
 * `defaultContext`: the certificates of connections whose route has none.
 */
export function createSocketOpener(defaultContext?: SecureContext) {
  // One context for all connections: each has a copy of the root certificates.
  let secureContext = defaultContext
  function contextOf(route: ClientRoute | undefined): SecureContext {
    if (route?.secureContext !== undefined) return route.secureContext
    secureContext ??= createSecureContext()
    return secureContext
  }

  return function openSocket(request: SocketRequest): Socket {
    const { endpoint, route, resolver, connectMs, reading, onOpen } = request
    if (route?.proxy !== undefined) return openTunnel(request, route.proxy, contextOf)
    const options = {
      ...tcpOptions(endpoint, resolver),
      ...(reading && {
        onread: {
          buffer: reading.nextBuffer as () => Buffer,
          callback(length: number): boolean {
            reading.onRead(length)
            return true
          },
        },
      }),
    }
    const socket = endpoint.isTls
      ? openTls({ ...options, ...tlsOptions(endpoint, contextOf(route), request.session) }).on(
          'session',
          request.onSession,
        )
      : openTcp(options)
    const timer = setTimeout(() => {
      socket.destroy(new Http1Error('CONNECT_TIMEOUT', 'connect timeout'))
    }, connectMs)
    const stopTimer = () => clearTimeout(timer)
    return socket
      .once(endpoint.isTls ? 'secureConnect' : 'connect', () => {
        stopTimer()
        onOpen(socket)
      })
      .once('close', stopTimer)
      .on('error', request.onError)
      .on('end', request.onEnd)
      .on('close', request.onClose)
  }
}

export type OpenSocket = ReturnType<typeof createSocketOpener>
