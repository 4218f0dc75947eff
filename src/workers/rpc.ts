import { UnreachableError } from '../domain/errors.ts'

/** What one side can be asked: names, each with one input and one answer. Both travel as JSON. */
export type Procedures = Readonly<Record<string, (input: never) => unknown>>
type Input<W extends Procedures, Name extends keyof W> = Parameters<W[Name]>[0]
type Output<W extends Procedures, Name extends keyof W> = Awaited<ReturnType<W[Name]>>

/** Our end of the channel between a worker and its supervisor. */
export type Port = {
  send(message: unknown, sent: (error: Error | null) => void): void
  onMessage(listener: (message: unknown) => void): void
}

type Message =
  | { readonly ask: number; readonly name: string; readonly input?: unknown }
  | { readonly tell: string; readonly input?: unknown }
  | { readonly answer: number; readonly output?: unknown }
  | { readonly answer: number; readonly failure: string; readonly isOfStore: boolean }

/** The other side is gone, or could not do what it was asked. */
export class RpcError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'PostError'
  }
}

/** A store that one of them cannot reach is the same trouble to whoever asked. */
function failureOf({ failure, isOfStore }: { failure: string; isOfStore: boolean }): Error {
  const error = new RpcError(failure)
  return isOfStore ? new UnreachableError(error) : error
}

/** Questions and answers between two processes. `ours` are the words we are asked, `Theirs` those we ask. */
export function createRpc<Theirs extends Procedures, Ours extends Procedures>(port: Port, ours: Ours) {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let nextId = 1
  let failure: RpcError | undefined

  function fail(): void {
    failure ??= new RpcError('the other process is gone')
    for (const { reject } of waiting.values()) reject(failure)
    waiting.clear()
  }

  const send = (letter: Message) =>
    port.send(letter, error => {
      if (error) fail()
    })

  async function answer(id: number, name: string, input: unknown): Promise<void> {
    try {
      const word = ours[name] as ((input: unknown) => unknown) | undefined
      if (!word) throw new RpcError(`"${name}" is not known here`)
      send({ answer: id, output: await word(input) })
    } catch (error) {
      send({ answer: id, failure: (error as Error).message, isOfStore: error instanceof UnreachableError })
    }
  }

  port.onMessage(message => {
    const letter = message as Message
    if ('ask' in letter) return void answer(letter.ask, letter.name, letter.input)
    if ('tell' in letter)
      return void (ours[letter.tell] as ((input: unknown) => unknown) | undefined)?.(letter.input)
    const asked = waiting.get(letter.answer)
    waiting.delete(letter.answer)
    if ('failure' in letter) asked?.reject(failureOf(letter))
    else asked?.resolve(letter.output)
  })

  return {
    ask<Name extends keyof Theirs & string>(
      name: Name,
      input: Input<Theirs, Name>,
    ): Promise<Output<Theirs, Name>> {
      if (failure) return Promise.reject(failure)
      const id = nextId++
      const asked = Promise.withResolvers<unknown>()
      waiting.set(id, asked)
      send({ ask: id, name, input })
      return asked.promise as Promise<Output<Theirs, Name>>
    },
    /** Says something that needs no answer. */
    tell<Name extends keyof Theirs & string>(name: Name, input: Input<Theirs, Name>): void {
      if (!failure) send({ tell: name, input })
    },
    /** The other process has ended: whoever waits for it need not. */
    fail,
  }
}

export type Rpc<Theirs extends Procedures> = {
  ask<Name extends keyof Theirs & string>(
    name: Name,
    input: Input<Theirs, Name>,
  ): Promise<Output<Theirs, Name>>
  tell<Name extends keyof Theirs & string>(name: Name, input: Input<Theirs, Name>): void
  fail(): void
}
