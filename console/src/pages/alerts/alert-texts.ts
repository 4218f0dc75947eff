import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import {
  type AlertKind,
  alertKind,
  describeAlert,
  type Notice,
  TARGET_TYPES,
  type TargetType,
} from '../../../../src/domain/alert.ts'
import type { Language } from '../../../../src/domain/setting.ts'
import { useGatewayText } from '../../texts/gateway-text.tsx'

/** Names and descriptions of alerts in the language of the console. They are part of the domain, as in messages. */
export function useAlertTexts() {
  const { i18n } = useTranslation()
  const language = i18n.language as Language
  const translated = useGatewayText()
  // The same functions until the language changes: columns of tables depend on them.
  return useMemo(
    () => ({
      language,
      kindLabel: (kind: AlertKind) => alertKind(kind).label[language],
      kindHelp: (kind: AlertKind) => alertKind(kind).help[language],
      /** The gateway names its own rules in English after their kind. */
      ruleName: ({ name, kind }: { readonly name: string; readonly kind: AlertKind }) =>
        name === alertKind(kind).label.en ? alertKind(kind).label[language] : name,
      typeLabel: (type: TargetType) => TARGET_TYPES[type].label[language],
      describe: ({ kind, values }: Pick<Notice, 'kind' | 'values'>) => {
        const words = Object.entries(values).map(([name, value]) => [name, translated(value)])
        return describeAlert({ kind, values: Object.fromEntries(words) }, language)
      },
    }),
    [language, translated],
  )
}
