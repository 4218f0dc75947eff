import { useEffect } from 'react'
import { useTranslation } from 'react-i18next'
import { useSelf } from '../api/self.ts'
import { toast } from './toast.tsx'

type Fields = Readonly<Record<string, unknown>>

function read(place: string): Fields {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(place) ?? '{}')
    return typeof stored === 'object' && stored !== null ? (stored as Fields) : {}
  } catch {
    // Storage may be closed to us, or hold something else under our name.
    return {}
  }
}

function write(place: string, fields: Fields): void {
  try {
    if (Object.keys(fields).length === 0) sessionStorage.removeItem(place)
    else sessionStorage.setItem(place, JSON.stringify(fields))
  } catch {
    // Then it is as it would be without drafts.
  }
}

type Draft = {
  /** Of which form: one draft each, for each person. */
  readonly name: string
  /** What was typed so far; never a secret. */
  readonly typed: Fields
  /** Puts back what was typed before. */
  readonly restore: (typed: Fields) => void
}

/** A page that is loaded anew shows a long form as it was. Whoever leaves the form, or saves it, leaves no draft behind. */
export function useDraft({ name, typed, restore }: Draft): void {
  const { t } = useTranslation()
  const place = `sluice.draft.${useSelf().id}.${name}`
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the form is shown
  useEffect(() => {
    const stored = read(place)
    if (Object.keys(stored).length > 0) {
      restore(stored)
      toast(t('unsaved.restored'))
    }
    return () => write(place, {})
  }, [place])
  const text = JSON.stringify(typed)
  useEffect(() => write(place, JSON.parse(text)), [place, text])
}
