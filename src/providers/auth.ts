import type { Auth, Provider, Signer, Values } from './provider.ts'

// Local servers need no key, so an empty key must not be sent as an empty header.
const unlessEmpty =
  (auth: Auth): Auth =>
  key =>
    key === '' ? {} : auth(key)

/** The key in `authorization`, after the scheme that the vendor expects. */
export const authorization = (scheme: string): Auth =>
  unlessEmpty(key => ({ authorization: `${scheme} ${key}` }))

export const bearer = authorization('Bearer')

/** The key in another header. */
export const keyHeader = (name: string): Auth => unlessEmpty(key => ({ [name]: key }))

/** The headers of every call with this key, without those of a key exchange. */
export function headersOf(provider: Provider, key: string, values: Values): Readonly<Record<string, string>> {
  const fieldHeaders = (provider.fields ?? []).flatMap(({ name, header }) => {
    const value = values[name]
    return header === undefined || value === undefined ? [] : [[header, value] as const]
  })
  const keyHeaders = provider.exchange?.takes(key) === true ? {} : provider.auth?.(key)
  return { ...provider.headers, ...Object.fromEntries(fieldHeaders), ...keyHeaders }
}

/** Signs requests with this key; undefined if the key itself is sent. */
export function signerOf({ exchange }: Provider, key: string, values: Values): Signer | undefined {
  const { sign, takes } = exchange ?? {}
  return sign !== undefined && takes?.(key) ? request => sign(key, values, request) : undefined
}
