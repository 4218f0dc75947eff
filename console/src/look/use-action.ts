import type { Input } from '../api/client.ts'
import type { AnswerOf, RouteName } from '../api/contract.ts'
import { useRouteMutation } from '../api/query.ts'
import { useErrorText } from './states.tsx'
import { toast } from './toast.tsx'

/** A write by one click. A failure is reported, because no form is there to show it. */
export function useAction<Name extends RouteName>(name: Name) {
  const words = useErrorText()
  const { mutateAsync, isPending } = useRouteMutation(name)
  const run = async (input: Input<Name>, onDone: (answer: AnswerOf<Name>) => void = () => {}) => {
    try {
      onDone(await mutateAsync(input))
    } catch (error) {
      toast(words(error))
    }
  }
  return { run, isBusy: isPending }
}
