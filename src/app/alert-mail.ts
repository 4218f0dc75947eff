import { UnreachableError } from '../domain/errors.ts'
import { createScrub } from '../domain/scrub.ts'
import { parseSender, parseSmtpUrl, type SmtpServer } from '../domain/smtp.ts'
import type { Keyring } from '../identity/keyring.ts'
import type { Db } from '../store/engine/store.ts'
import { readSecretSetting, readSettings, secretSettingPlace } from '../store/records/settings.ts'

const CONNECT_TIMEOUT_MS = 10_000
const SOCKET_TIMEOUT_MS = 15_000

type Sender = NonNullable<ReturnType<typeof parseSender>>
type Mail = { readonly to: readonly string[]; readonly subject: string; readonly text: string }

/** A mail could not be sent. The message contains no secret. */
export class MailError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'MailError'
  }
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/

/** Without TLS, a password is sent only to this machine. */
const tlsOf = ({ isSecure, password, host }: SmtpServer) => ({
  secure: isSecure,
  requireTLS: !isSecure && password !== '' && !LOOPBACK.test(host),
  // A local server rarely has a certificate that is valid for its address.
  ignoreTLS: !isSecure && LOOPBACK.test(host),
})

/** Sends mails through the server of the settings `smtp_url` and `smtp_from`. */
export function createMailer({ db, keyring }: { readonly db: Db; readonly keyring: Keyring }) {
  let last: { readonly server: SmtpServer; readonly sender: Sender } | undefined

  async function readServer() {
    const sealed = await readSecretSetting(db, 'smtp_url')
    const { smtp_from } = await readSettings(db)
    if (sealed === undefined)
      throw new MailError('The setting smtp_url is empty. Set it to your mail server.')
    const sender = parseSender(smtp_from)
    if (!sender) throw new MailError('The setting smtp_from is empty. Set it to the sender of the mails.')
    const parsed = parseSmtpUrl(keyring.open(sealed, secretSettingPlace('smtp_url')))
    if ('fault' in parsed) throw new MailError(`The setting smtp_url ${parsed.fault}.`)
    last = { server: parsed.server, sender }
    return last
  }

  /** The settings that were read last, if the store is unavailable: the mail may be about that. */
  const lastServer = (error: unknown) => {
    if (error instanceof UnreachableError && last) return last
    throw error
  }

  return async function sendMail({ to, subject, text }: Mail): Promise<void> {
    const { server, sender } = await readServer().catch(lastServer)
    // Loaded with the first mail: most gateways send none.
    const { createTransport } = await import('nodemailer')
    const transport = createTransport({
      host: server.host,
      port: server.port,
      ...tlsOf(server),
      ...(server.user !== '' && { auth: { user: server.user, pass: server.password } }),
      connectionTimeout: CONNECT_TIMEOUT_MS,
      greetingTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SOCKET_TIMEOUT_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    })
    try {
      await transport.sendMail({ from: sender, to: [...to], subject, text })
    } catch (error) {
      // A server may repeat the credentials as they were sent: the password, or with the user in base64.
      const scrub = createScrub([server.password, `\0${server.user}\0${server.password}`])
      throw new MailError(scrub((error as Error).message))
    } finally {
      transport.close()
    }
  }
}

export type SendMail = ReturnType<typeof createMailer>
