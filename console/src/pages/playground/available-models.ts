import { createContext, useContext } from 'react'
import type { Pricing, Token } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'

/** What a model is for, in the words of the price list. */
export type ModelPurpose =
  | 'openai'
  | 'image-generation'
  | 'audio-speech'
  | 'audio-transcription'
  | 'moderation'
  | 'jina-rerank'
  | 'openai-video'

/** The token that requests of this page run as; undefined for oneself. */
export const BillingToken = createContext<Token | undefined>(undefined)
export const useBillingToken = () => useContext(BillingToken)

const PRICES_STALE_MS = 60_000

/** What there is to ask for, and at what price. */
export const usePrices = () => useCall('pricing', {}, { staleMs: PRICES_STALE_MS })

/** The models this person, or the chosen token, may ask for this. */
export function useAvailableModels(kind: ModelPurpose): readonly Pricing[] {
  const token = useBillingToken()
  const { data } = usePrices()
  const allowed = token?.model_limits_enabled ? new Set(token.models) : undefined
  return (data?.data ?? []).filter(
    ({ model_name, supported_endpoint_types }) =>
      supported_endpoint_types.includes(kind) && (allowed?.has(model_name) ?? true),
  )
}
