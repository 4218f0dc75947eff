import { fold } from '../../domain/text.ts'
import { textOf } from './values.ts'

const MAX_USERNAME = 64
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Cf}\p{Cc}]/gu

const cut = (name: string, length: number) => [...name].slice(0, length).join('')

/** A name that follows our rule: `_` for spaces, nothing invisible, at most 64 characters. */
export function usernameOf(name: string, sourceId: string): string {
  const clean = textOf(name).trim().replace(/\s/gu, '_').replace(INVISIBLE, '')
  return cut(clean, MAX_USERNAME) || `user-${sourceId.replace(/[^\w-]/g, '').slice(0, 40)}`
}

/** Gives every user a free name: `-2`, `-3` … where a name is in use. Names are the same if they fold to the same text. */
export function createUsernames(used: Iterable<string>) {
  const folded = new Set(used)
  const suffixes = new Map<string, number>()
  return {
    claim(preferred: string): string {
      let name = preferred
      for (let suffix = suffixes.get(fold(preferred)) ?? 2; folded.has(fold(name)); suffix += 1) {
        const ending = `-${suffix}`
        name = cut(preferred, MAX_USERNAME - ending.length) + ending
        suffixes.set(fold(preferred), suffix + 1)
      }
      folded.add(fold(name))
      return name
    },
  }
}
