import { useTranslation } from 'react-i18next'
import { useGatewayText } from '../texts/gateway-text.tsx'

const REASONS = ['resting', 'trying', 'full', 'no_key', 'disabled'] as const

/** Why a channel is left out of a route, in words. */
export function useExclusionReason(): (reason: string) => string {
  const { t } = useTranslation()
  const textOf = useGatewayText()
  return reason => {
    const code = REASONS.find(name => name === reason)
    return code ? t(`route.why.${code}`) : textOf(reason)
  }
}
