import { type JsonObject, member, textOf } from '../../../domain/json-value.ts'
import { compact } from '../../hub/fields.ts'
import type { Citation } from '../../hub/hub.ts'

/**
 * The sources of an answer in the form of Perplexity and xAI: beside the choices, as a list of URLs and a list of search
 * results. Numbers in the text (`[1]`) refer to the first list.
 */
export function sourcesIn({ citations, search_results }: JsonObject): readonly Citation[] {
  const pages = new Map<string, Citation>()
  const results = listOf(search_results)
  for (const source of [...listOf(citations), ...results]) {
    const url = textOf(source) ?? textOf(member(source, 'url'))
    if (url === undefined || pages.has(url)) continue
    const details = results.find(result => member(result, 'url') === url) ?? source
    pages.set(
      url,
      compact<Citation>({
        url,
        title: textOf(member(details, 'title')),
        quote: textOf(member(details, 'snippet')),
      }),
    )
  }
  return [...pages.values()]
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Whether an object may contain sources; most have neither field. */
export const hasSources = (body: JsonObject): boolean =>
  body.citations !== undefined || body.search_results !== undefined
