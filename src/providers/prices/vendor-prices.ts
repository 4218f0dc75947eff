import type { PriceFields } from '../../domain/price.ts'

/**
 * List prices of one maker, in the API's dollars: prices per character, second, image, search or video, and token prices of
 * models that no other source lists. An entry is the complete price of its model.
 */
export type VendorPrices = {
  /** The label of the maker's models in `/v1/models`. */
  readonly owner: string
  readonly models: Readonly<Record<string, PriceFields>>
}

/** One price for several names. */
export const same = (price: PriceFields, ...models: readonly string[]): Record<string, PriceFields> =>
  Object.fromEntries(models.map(model => [model, price]))

/** The price of a video per second: `usual` by default, and those of other resolutions. */
export const video = (usual: number, byResolution: Readonly<Record<string, number>> = {}): PriceFields => {
  const variants = Object.entries(byResolution).map(([resolution, usd]) => ({
    when: { resolution },
    per_second: usd,
  }))
  return { per_second: usual, ...(variants.length > 0 && { variants }) }
}

/** Videos are priced per second only, so an extra charge for a start image is noted and not charged. */
export const startingPicture = (usd: number): PriceFields => ({
  unit_note: `The vendor adds ${usd} USD for a start image.`,
})
