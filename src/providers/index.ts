import * as list from './list.ts'
import type { Provider } from './provider.ts'

export { headersOf, signerOf } from './auth.ts'
export * from './endpoint.ts'
export * from './offers.ts'
export * from './popular.ts'
export * from './provider.ts'
export * from './type-entry.ts'

/** Every vendor, sorted by type number. */
export const providers: readonly Provider[] = Object.values<Provider>(list).toSorted(
  (one, other) => one.type - other.type,
)

const byType: ReadonlyMap<number, Provider> = new Map(providers.map(provider => [provider.type, provider]))

export function providerOf(type: number): Provider | undefined {
  return byType.get(type)
}
