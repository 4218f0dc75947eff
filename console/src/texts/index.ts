import i18next from 'i18next'
import { initReactI18next } from 'react-i18next'
import { onOtherTab, type Preferences, preferences, setPreferences } from '../look/preferences.ts'
import { en } from './en.ts'
import { GATEWAY_NAMESPACE } from './gateway-text.tsx'

type Language = Preferences['language']

/** Loads a language on demand. */
async function load(language: Language): Promise<void> {
  if (language === 'en' || i18next.hasResourceBundle(language, 'translation')) return
  const [{ zhCN }, { gatewayZhCN: saidZhCN }] = await Promise.all([
    import('./zh-cn.ts'),
    import('./gateway-zh-cn.ts'),
  ])
  i18next.addResourceBundle(language, 'translation', zhCN)
  i18next.addResourceBundle(language, GATEWAY_NAMESPACE, saidZhCN)
}

export async function startTexts(): Promise<void> {
  await i18next.use(initReactI18next).init({
    lng: 'en',
    fallbackLng: false,
    resources: { en: { translation: en } },
    interpolation: { escapeValue: false },
    returnNull: false,
  })
  await speak(preferences().language)
  onOtherTab(({ language }) => void speak(language))
}

/** The last one that was chosen. Its texts may still be loading. */
let chosen: Language | undefined

export async function speak(language: Language): Promise<void> {
  chosen = language
  await load(language)
  if (chosen !== language) return
  await i18next.changeLanguage(language)
  if (preferences().language !== language) setPreferences({ language })
}
