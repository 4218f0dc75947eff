import type { Auth, Provider, Signer, Values } from './provider.ts'

// Local servers ask for no key: an empty one must not become a header that says nothing.
const unlessEmpty =
  (auth: Auth): Auth =>
  key =>
    key === '' ? {} : auth(key)

/** The key in `authorization`, behind the word the vendor wants there. */
export const authorization = (word: string): Auth => unlessEmpty(key => ({ authorization: `${word} ${key}` }))

export const bearer = authorization('Bearer')

/** The key alone in a header of the vendor's own. */
export const keyHeader = (name: string): Auth => unlessEmpty(key => ({ [name]: key }))

/** The headers of every call with this key, but for those an exchange of the key yields. */
export function headersOf(provider: Provider, key: string, values: Values): Readonly<Record<string, string>> {
  const fieldHeaders = (provider.fields ?? []).flatMap(({ name, header }) => {
    const value = values[name]
    return header === undefined || value === undefined ? [] : [[header, value] as const]
  })
  const carried = provider.exchange?.takes(key) === true ? {} : provider.auth?.(key)
  return { ...provider.headers, ...Object.fromEntries(fieldHeaders), ...carried }
}

/** How requests with this key are signed; undefined where the key itself travels. */
export function signerOf({ exchange }: Provider, key: string, values: Values): Signer | undefined {
  const { sign, takes } = exchange ?? {}
  return sign !== undefined && takes?.(key) ? request => sign(key, values, request) : undefined
}
