import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { toast } from '../../look/toast.tsx'
import type { PriceResult } from './price-changes.tsx'

type Ask = (isDry: boolean) => Promise<readonly PriceResult[] | undefined>

const countChanged = (results: readonly PriceResult[]) =>
  results.filter(({ is_changed }) => is_changed).length

/** Changes several prices in two steps: a dry run for the preview, then the change. */
export function usePricePreview(ask: Ask, onClose: () => void) {
  const { t } = useTranslation()
  const [results, setResults] = useState<readonly PriceResult[]>()
  const submit = async () => {
    const isDry = results === undefined
    const response = await ask(isDry)
    if (!response) return
    if (isDry) return setResults(response)
    toast(t('prices.set_several', { count: countChanged(response) }))
    onClose()
  }
  const changed = countChanged(results ?? [])
  return {
    results,
    submit,
    verb: results ? t('prices.set_all', { count: changed }) : t('prices.show_changes'),
    /** False when the preview has no changes. */
    hasWork: results === undefined || changed > 0,
    /** Discards the preview after a change of the input. */
    forget: () => setResults(undefined),
  }
}
