import { useMemo } from 'react'
import type { Channel, ChannelType } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import type { StatusName } from '../../look/status-badge.tsx'

const TYPES_STALE_MS = 60_000

/** The providers, from the gateway. The console knows no vendor itself. */
export function useTypes() {
  const result = useCall('listTypes', {}, { staleMs: TYPES_STALE_MS })
  return useMemo(() => {
    const list = result.data ?? []
    const byNumber = new Map<number, ChannelType>(list.map(type => [type.type, type]))
    // By type, so that a mark does not depend on which providers are in use.
    const marks = marksOf(list.toSorted((one, other) => one.type - other.type).map(({ name }) => name))
    return {
      result,
      list,
      byNumber,
      markOf: (name: string) => ({ letters: marks.get(name) ?? '?', tint: tintOf(name) }),
    }
  }, [result])
}

/** Pairs of letters that stand for a name, the best first: its initials and humps, then its other letters. */
function* pairsOf(name: string): Generator<string> {
  const initials = name.match(/\p{Lu}(?=\p{Ll})|(?<=\p{Ll})\p{Lu}|(?<![\p{L}\p{N}])[\p{L}\p{N}]/gu) ?? []
  const [first = '?', ...others] = initials
  const rest = [...name.replace(/[^\p{L}\p{N}]/gu, '')].slice(1)
  for (const letter of [...others, ...rest]) yield `${first}${letter}`.toUpperCase()
  yield first.toUpperCase()
}

/** A mark of two letters for each name, all different. */
export function marksOf(names: readonly string[]): ReadonlyMap<string, string> {
  const marks = new Map<string, string>()
  const taken = new Set<string>()
  for (const name of names) {
    const pairs = [...pairsOf(name)]
    const mark = pairs.find(pair => !taken.has(pair)) ?? pairs[0] ?? '?'
    taken.add(mark)
    marks.set(name, mark)
  }
  return marks
}

const TINTS = 6

/** The tint of a name's mark, from 1: the same wherever the name is shown. */
const tintOf = (name: string) =>
  ([...name].reduce((sum, letter) => sum + (letter.codePointAt(0) ?? 0), 0) % TINTS) + 1

const STATES: Readonly<Record<number, StatusName>> = { 1: 'enabled', 2: 'disabled', 3: 'auto_disabled' }
export const statusOf = ({ status }: Pick<Channel, 'status'>): StatusName => STATES[status] ?? 'disabled'

/** Splits pasted keys at line breaks and commas. A JSON document is one key. */
export function splitKeys(text: string): readonly string[] {
  const trimmed = text.trim()
  if (trimmed === '') return []
  if (/^[{[]/.test(trimmed)) return [trimmed]
  return trimmed
    .split(/[\n\r,]+/)
    .map(key => key.trim())
    .filter(key => key !== '')
}
