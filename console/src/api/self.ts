import { useSuspenseQuery } from '@tanstack/react-query'
import { ROLE } from '../../../src/manage/contract/constants.ts'
import { callQuery } from './query.ts'

export { ROLE }

export const selfQuery = callQuery('getSelf', {}, { askSignIn: false })

/** Whoever is signed in; the shell has made sure that somebody is. */
export const useSelf = () => useSuspenseQuery(selfQuery).data
export const useIsAdmin = () => useSelf().role >= ROLE.admin
export const useIsRoot = () => useSelf().role >= ROLE.root
