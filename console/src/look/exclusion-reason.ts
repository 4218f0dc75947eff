import { useTranslation } from 'react-i18next'
import { useGatewayText } from '../texts/gateway-text.tsx'

const REASONS = ['resting', 'trying', 'full', 'no_key', 'disabled', 'not_offered', 'unpriced'] as const

/** The text for a reason why routing excluded a channel. */
export function useExclusionReason(): (reason: string) => string {
  const { t } = useTranslation()
  const textOf = useGatewayText()
  return reason => {
    const code = REASONS.find(name => name === reason)
    return code ? t(`route.why.${code}`) : textOf(reason)
  }
}
