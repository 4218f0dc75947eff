import i18next from 'i18next'
import { useTranslation } from 'react-i18next'
import { type Catalogue, translate } from './translate.ts'

/** The namespace under which a language keeps the gateway's own sentences. */
export const GATEWAY_NAMESPACE = 'said'

/** What the gateway says, in the language of the console where it knows the sentence. */
export function useGatewayText(): (text: string) => string {
  const { i18n } = useTranslation()
  const catalogue = i18next.getResourceBundle(i18n.language, GATEWAY_NAMESPACE) as Catalogue | undefined
  return text => (catalogue ? translate(catalogue, text) : text)
}

/** The same as a piece of text that says which language it is in. */
export function GatewayText({ text }: { readonly text: string }) {
  const words = useGatewayText()(text)
  return <span lang={words === text ? 'en' : undefined}>{words}</span>
}
