import { useTranslation } from 'react-i18next'
import { useSaid } from '../texts/gateway-text.tsx'

const WHY = ['resting', 'trying', 'full', 'no_key', 'disabled'] as const

/** Why a channel is left out of a route, in words. */
export function useWhy(): (reason: string) => string {
  const { t } = useTranslation()
  const said = useSaid()
  return reason => {
    const known = WHY.find(name => name === reason)
    return known ? t(`route.why.${known}`) : said(reason)
  }
}
