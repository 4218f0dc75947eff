import { useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { type PlaygroundEndpoint, useAvailableModels } from './available-models.ts'

/** The selected model: from the URL if it supports this purpose, otherwise the first available. */
export function useModel(kind: PlaygroundEndpoint) {
  const { model: modelParam } = useSearch({ strict: false }) as { model?: string }
  const models = useAvailableModels(kind)
  const [chosen, choose] = useState<string>()
  const requestedModel = models.find(({ model_name }) => model_name === modelParam)?.model_name
  return [chosen ?? requestedModel ?? models[0]?.model_name ?? '', choose] as const
}
