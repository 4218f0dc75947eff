import { createContext, useContext } from 'react'
import type { Pricing, Token } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'

/** Endpoint types of the price list. */
export type PlaygroundEndpoint =
  | 'openai'
  | 'image-generation'
  | 'audio-speech'
  | 'audio-transcription'
  | 'moderation'
  | 'jina-rerank'
  | 'openai-video'

/** The token that the playground bills to; undefined for the user's account. */
export const BillingToken = createContext<Token | undefined>(undefined)
export const useBillingToken = () => useContext(BillingToken)

const PRICES_STALE_MS = 60_000

/** The available models and their prices. */
export const usePrices = () => useCall('pricing', {}, { staleMs: PRICES_STALE_MS })

/** Models that the user or the chosen token may use for this purpose. */
export function useAvailableModels(kind: PlaygroundEndpoint): readonly Pricing[] {
  const token = useBillingToken()
  const { data } = usePrices()
  const allowed = token?.model_limits_enabled ? new Set(token.models) : undefined
  return (data?.data ?? []).filter(
    ({ model_name, supported_endpoint_types }) =>
      supported_endpoint_types.includes(kind) && (allowed?.has(model_name) ?? true),
  )
}
