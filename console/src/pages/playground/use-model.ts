import { useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { setPreferences, usePreferences } from '../../look/preferences.ts'
import { type PlaygroundEndpoint, useAvailableModels } from './available-models.ts'

/** The selected model: from the URL, the last one that was used for this purpose, or the first available. */
export function useModel(kind: PlaygroundEndpoint) {
  const { model: modelParam } = useSearch({ strict: false }) as { model?: string }
  const { playgroundModels } = usePreferences()
  const models = useAvailableModels(kind)
  const [chosen, setChosen] = useState<string>()
  const available = (name: string | undefined) =>
    models.find(({ model_name }) => model_name === name)?.model_name
  const choose = (name: string) => {
    setChosen(name)
    // Only existing models are remembered, not a name that is being typed.
    if (available(name)) setPreferences({ playgroundModels: { ...playgroundModels, [kind]: name } })
  }
  const model =
    chosen ?? available(modelParam) ?? available(playgroundModels[kind]) ?? models[0]?.model_name ?? ''
  return [model, choose] as const
}
