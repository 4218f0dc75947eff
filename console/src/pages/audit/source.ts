import type { TFunction } from 'i18next'

const SOURCES = ['access_token', 'session', 'command', 'password', 'gateway'] as const

/** The text for how the actor was authenticated, such as `access_token:7`. */
export function sourceText(t: TFunction, via: string): string {
  const [kind, which] = via.split(':')
  const source = SOURCES.find(name => name === kind)
  if (!source) return via
  const name = t(`audit.sources.${source}`)
  if (!which || source === 'session') return name
  return source === 'command' ? `${name} (${which})` : `${name} ${which}`
}
