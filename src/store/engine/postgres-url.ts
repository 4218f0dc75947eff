/** Which servers of a URL are used: those that accept writes, standbys if there is one, or any. */
const SESSION_ATTRIBUTES = {
  'read-write': 'writable',
  primary: 'writable',
  any: 'any',
  standby: 'standby',
  'read-only': 'standby',
  'prefer-standby': 'preferStandby',
} as const

export type ServerKind = (typeof SESSION_ATTRIBUTES)[keyof typeof SESSION_ATTRIBUTES]

export type PostgresUrl = {
  /** A URL for each host, in the order of preference. */
  readonly hosts: readonly [string, ...string[]]
  /** Undefined: the URL does not say. */
  readonly kind: ServerKind | undefined
}

const ATTRIBUTE = 'target_session_attrs'
const FORM = /^(postgres(?:ql)?:\/\/)([^/?#]*)([^?#]*)(\?[^#]*)?$/

/**
 * Parses a URL as libpq does: several hosts, separated by commas, each with an own port, and `target_session_attrs`. The
 * message of an error does not repeat the URL, which may contain a password.
 */
export function parsePostgresUrl(text: string): PostgresUrl {
  const [, scheme, authority = '', path = '', query = ''] = FORM.exec(text) ?? []
  if (scheme === undefined) throw new Error('must be a postgres://… URL')
  const at = authority.lastIndexOf('@') + 1
  const parameters = new URLSearchParams(query)
  const attribute = parameters.get(ATTRIBUTE)
  parameters.delete(ATTRIBUTE)
  if (attribute !== null && !(attribute in SESSION_ATTRIBUTES))
    throw new Error(`has an unknown ${ATTRIBUTE}: use ${Object.keys(SESSION_ATTRIBUTES).join(', ')}`)
  const rest = `${path}${parameters.size > 0 ? `?${parameters}` : ''}`
  const hosts = authority
    .slice(at)
    .split(',')
    .map(host => `${scheme}${authority.slice(0, at)}${host}${rest}`)
  if (hosts.some(host => !URL.canParse(host))) throw new Error('has a host or port that is not valid')
  return {
    hosts: hosts as [string, ...string[]],
    kind: attribute === null ? undefined : SESSION_ATTRIBUTES[attribute as keyof typeof SESSION_ATTRIBUTES],
  }
}
