import { useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { type Kind, useCallable } from './available-models.ts'

/** The model of a form: the one the address names if it is of this kind, else the first that can be asked. */
export function useModel(kind: Kind) {
  const { model: named } = useSearch({ strict: false }) as { model?: string }
  const models = useCallable(kind)
  const [chosen, choose] = useState<string>()
  const known = models.find(({ model_name }) => model_name === named)?.model_name
  return [chosen ?? known ?? models[0]?.model_name ?? '', choose] as const
}
