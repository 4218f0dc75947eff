import i18next from 'i18next'
import { useTranslation } from 'react-i18next'
import { type Catalogue, saidIn } from './translate.ts'

/** The namespace under which a language keeps the gateway's own sentences. */
export const SAID = 'said'

/** What the gateway says, in the language of the console where it knows the sentence. */
export function useSaid(): (text: string) => string {
  const { i18n } = useTranslation()
  const catalogue = i18next.getResourceBundle(i18n.language, SAID) as Catalogue | undefined
  return text => (catalogue ? saidIn(catalogue, text) : text)
}

/** The same as a piece of text that says which language it is in. */
export function Said({ text }: { readonly text: string }) {
  const words = useSaid()(text)
  return <span lang={words === text ? 'en' : undefined}>{words}</span>
}
