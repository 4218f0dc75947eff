import { useSuspenseQuery } from '@tanstack/react-query'
import { ROLE } from '../../../src/manage/contract/constants.ts'
import { callQuery } from './query.ts'

export { ROLE }

export const selfQuery = callQuery('getSelf', {}, { askSignIn: false })

/** The signed-in user. The shell loads it before any page renders. */
export const useSelf = () => useSuspenseQuery(selfQuery).data
export const useIsAdmin = () => useSelf().role >= ROLE.admin
export const useIsRoot = () => useSelf().role >= ROLE.root
