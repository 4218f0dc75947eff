import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'

export type ReceivedMail = {
  readonly from: string
  readonly to: readonly string[]
  readonly user: string | undefined
  readonly text: string
}

/** A mail server on a free port. With a password, it accepts only this one. */
export async function startMailServer(password?: string) {
  const received: ReceivedMail[] = []
  const server = new SMTPServer({
    authOptional: password === undefined,
    allowInsecureAuth: true,
    hideSTARTTLS: true,
    disableReverseLookup: true,
    onAuth({ username, password: sentPassword }, _session, done) {
      if (sentPassword === password) done(null, { user: username ?? '' })
      else done(new Error(`Invalid credentials: ${sentPassword}`))
    },
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope
        received.push({
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          user: session.user as string | undefined,
          text: Buffer.concat(chunks).toString('utf8'),
        })
        done()
      })
    },
  })
  server.on('error', () => {})
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.server.address() as AddressInfo).port,
    received,
    close: () => new Promise<void>(resolve => server.close(() => resolve())),
  }
}
