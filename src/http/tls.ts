import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import type { Server } from 'node:http'
import { createServer, type Server as TlsServer } from 'node:tls'

const HANDSHAKE_MS = 10_000
const CHECK_MS = 2_000

/** The certificate or its key cannot be used at the start. */
export class TlsFilesError extends Error {
  constructor(cause: Error) {
    super(`SLUICE_TLS_CERT and SLUICE_TLS_KEY cannot be used: ${cause.message}`, { cause })
    this.name = 'TlsFilesError'
  }
}

export type TlsOptions = {
  readonly certFile: string
  readonly keyFile: string
  /** A changed certificate is in use for new connections. */
  onReload(): void
  /** A changed certificate cannot be used. The previous one stays in use. */
  onFailure(error: Error): void
}

/** Changes with the content of a file, also if it is replaced by another one. */
function stateOf(file: string): string {
  const { mtimeMs, size, ino } = statSync(file)
  return `${mtimeMs}:${size}:${ino}`
}

function openOrRefuse<T>(open: () => T): T {
  try {
    return open()
  } catch (error) {
    throw new TlsFilesError(error as Error)
  }
}

/** Runs `parse`, whose own error says nothing that an operator could use. */
function parseOr<T>(message: string, parse: () => T): T {
  try {
    return parse()
  } catch {
    throw new Error(message)
  }
}

/** Reads both files, and says which one is wrong. */
function readFiles(certFile: string, keyFile: string) {
  const [cert, key] = [readFileSync(certFile), readFileSync(keyFile)]
  const certificate = parseOr(
    `${certFile} contains no valid certificate (PEM)`,
    () => new X509Certificate(cert),
  )
  const privateKey = parseOr(`${keyFile} contains no private key (PEM, not encrypted)`, () =>
    createPrivateKey(key),
  )
  if (!certificate.checkPrivateKey(privateKey))
    throw new Error(`the key in ${keyFile} does not belong to the certificate in ${certFile}`)
  return { cert, key }
}

/**
 * Accepts TLS connections for an HTTP server, which sees the decrypted sockets as its own connections. It listens in place of
 * that server. The files are read again when they change.
 */
export function createTlsListener(server: Server, options: TlsOptions): TlsServer {
  const { certFile, keyFile, onReload, onFailure } = options
  const read = () => readFiles(certFile, keyFile)
  const state = () => `${stateOf(certFile)} ${stateOf(keyFile)}`
  const open = () => ({
    state: state(),
    listener: createServer(
      { ...read(), minVersion: 'TLSv1.2', ALPNProtocols: ['http/1.1'], handshakeTimeout: HANDSHAKE_MS },
      socket => server.emit('connection', socket),
    ),
  })
  const { listener, ...opened } = openOrRefuse(open)
  let current = opened.state
  // node:http tracks its connections and their timeouts from this event on.
  listener.once('listening', () => server.emit('listening'))

  function reload(): void {
    let next = 'unreadable'
    try {
      next = state()
      if (next === current) return
      listener.setSecureContext(read())
      onReload()
    } catch (error) {
      if (next !== current) onFailure(error as Error)
    }
    current = next
  }
  const timer = setInterval(reload, CHECK_MS)
  timer.unref()
  listener.once('close', () => {
    clearInterval(timer)
    server.close()
  })
  return listener
}
