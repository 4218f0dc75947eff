/** Why an exchange failed, apart from errors of the system such as ECONNRESET and of TLS. */
export type Http1Code =
  /** The connection was not established in time. */
  | 'CONNECT_TIMEOUT'
  /** The server sent nothing for too long, in the middle of a response. */
  | 'IDLE_TIMEOUT'
  /** The connection ended before the response was complete. */
  | 'CLOSED'
  /** The response is not HTTP/1.1 within the limits. */
  | 'MALFORMED_RESPONSE'
  /** The request has a header or a body that cannot be sent. */
  | 'MALFORMED_REQUEST'
  /** There is no connection to the proxy. */
  | 'PROXY_UNREACHABLE'
  /** The proxy refuses the credentials, or does not connect to the server. */
  | 'PROXY_REFUSED'
  /** The proxy does not speak its protocol, or closed the connection before the tunnel was open. */
  | 'PROXY_MALFORMED'

/** A failure of an exchange. An HTTP status is never one. */
export class Http1Error extends Error {
  readonly code: Http1Code
  constructor(code: Http1Code, message: string) {
    super(message)
    this.name = 'Http1Error'
    this.code = code
  }
}
