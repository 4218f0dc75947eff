/** A mail server, from a URL such as smtps://user:password@mail.example.com:465. */
export type SmtpServer = {
  readonly host: string
  readonly port: number
  /** TLS from the start (`smtps`), instead of STARTTLS (`smtp`). */
  readonly isSecure: boolean
  readonly user: string
  readonly password: string
}

const SCHEMES: Readonly<Record<string, { readonly port: number; readonly isSecure: boolean }>> = {
  'smtp:': { port: 587, isSecure: false },
  'smtps:': { port: 465, isSecure: true },
}

const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    // A percent sign without two digits.
    return undefined
  }
}

/** Parses the URL of a mail server, or returns why it is invalid. The reason does not repeat the URL. */
export function parseSmtpUrl(text: string): { readonly server: SmtpServer } | { readonly fault: string } {
  const form = { fault: 'must have the form smtps://user:password@host:465 or smtp://host:587' }
  if (!URL.canParse(text)) return form
  const url = new URL(text)
  const scheme = SCHEMES[url.protocol]
  if (!scheme || url.hostname === '' || !/^\/?$/.test(url.pathname)) return form
  if (url.search !== '' || url.hash !== '') return { fault: 'must not contain a query or fragment' }
  const [user, password] = [decoded(url.username), decoded(url.password)]
  if (user === undefined || password === undefined)
    return { fault: 'contains a "%" that is not followed by two hexadecimal digits: write it as %25' }
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return {
    server: {
      host,
      port: url.port === '' ? scheme.port : Number(url.port),
      isSecure: scheme.isSecure,
      user,
      password,
    },
  }
}

/** The URL without its password. */
export function maskSmtpUrl(text: string): string {
  const url = new URL(text)
  return url.password === '' ? text : `${url.protocol}//${url.username}:…@${url.host}`
}

const ADDRESS = /^[^\s@<>"(),:;\\[\]]{1,64}@[^\s@<>"(),:;\\]{1,190}$/

/** Whether a text is one e-mail address without a name. */
export const isEmailAddress = (text: string) => ADDRESS.test(text)

/** The address of a sender, `name@example.com` or `Name <name@example.com>`, or undefined. */
export function parseSender(text: string): { readonly name: string; readonly address: string } | undefined {
  const [, name = '', bracketed] = /^([^<>"@]*)<([^<>]+)>$/.exec(text) ?? []
  const address = bracketed ?? text
  return isEmailAddress(address) ? { name: name.trim(), address } : undefined
}
