import type { PriceFields } from '../../domain/price.ts'

/**
 * List prices of one maker, in the API's dollars: what is charged by the character, second, picture, search or video,
 * and models charged by the token that no other source lists. An entry here is the whole price of its model.
 */
export type VendorPrices = {
  /** The label `/v1/models` gives the models of this maker. */
  readonly owner: string
  readonly models: Readonly<Record<string, PriceFields>>
}

/** One price for several names. */
export const same = (price: PriceFields, ...models: readonly string[]): Record<string, PriceFields> =>
  Object.fromEntries(models.map(model => [model, price]))

/** A video's price by the second: `usual` where nothing is asked for, and what other resolutions cost. */
export const video = (usual: number, byResolution: Readonly<Record<string, number>> = {}): PriceFields => {
  const variants = Object.entries(byResolution).map(([resolution, usd]) => ({
    when: { resolution },
    per_second: usd,
  }))
  return { per_second: usual, ...(variants.length > 0 && { variants }) }
}

/** A video is sold by the second alone, so what its vendor adds for a picture to start from is told, not charged. */
export const startingPicture = (usd: number): PriceFields => ({
  unit_note: `The vendor adds ${usd} USD for a picture to start from.`,
})
