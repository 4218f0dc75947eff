import i18next from 'i18next'
import { useCallback } from 'react'
import { useTranslation } from 'react-i18next'
import { type Catalogue, translate } from './translate.ts'

/** The i18next namespace for translations of gateway messages. */
export const GATEWAY_NAMESPACE = 'said'

/** Translates a gateway message, if a translation exists. */
export function useGatewayText(): (text: string) => string {
  const { i18n } = useTranslation()
  const catalogue = i18next.getResourceBundle(i18n.language, GATEWAY_NAMESPACE) as Catalogue | undefined
  return useCallback(text => (catalogue ? translate(catalogue, text) : text), [catalogue])
}

/** A gateway message, marked as English when it has no translation. */
export function GatewayText({ text }: { readonly text: string }) {
  const words = useGatewayText()(text)
  return <span lang={words === text ? 'en' : undefined}>{words}</span>
}
