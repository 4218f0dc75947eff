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
    // Storage may be blocked, or hold invalid data under this key.
    return {}
  }
}

function write(place: string, fields: Fields): void {
  try {
    if (Object.keys(fields).length === 0) sessionStorage.removeItem(place)
    else sessionStorage.setItem(place, JSON.stringify(fields))
  } catch {
    // Without storage there are no drafts.
  }
}

type Draft = {
  /** Name of the form. Each user has one draft per form. */
  readonly name: string
  /** The values to keep; never a secret. */
  readonly typed: Fields
  /** Fills the form with stored values. */
  readonly restore: (typed: Fields) => void
}

/** Restores a long form after a page reload. Saving or leaving the form deletes the draft. */
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
