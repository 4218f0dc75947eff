import { UnreachableError } from '../domain/errors.ts'

/** The procedures of one side: names, each with one input and one output. Both are sent as JSON. */
type Procedures = Readonly<Record<string, (input: never) => unknown>>
type Input<P extends Procedures, Name extends keyof P> = Parameters<P[Name]>[0]
type Output<P extends Procedures, Name extends keyof P> = Awaited<ReturnType<P[Name]>>

/** Our end of the channel between a worker and its supervisor. */
type Port = {
  send(message: unknown, onSent: (error: Error | null) => void): void
  onMessage(listener: (message: unknown) => void): void
}

type Message =
  | { readonly call: number; readonly name: string; readonly input?: unknown }
  | { readonly notify: string; readonly input?: unknown }
  | { readonly response: number; readonly output?: unknown }
  | { readonly response: number; readonly failure: string; readonly isStoreError: boolean }

/** The other process has ended, or the procedure failed there. */
class RpcError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'RpcError'
  }
}

/** An unreachable store of the other process is the same error as an unreachable store of this process. */
function failureOf({ failure, isStoreError }: { failure: string; isStoreError: boolean }): Error {
  const error = new RpcError(failure)
  return isStoreError ? new UnreachableError(error) : error
}

/** Remote procedure calls between two processes: `ours` serves calls of the other side, `Theirs` are the calls we make. */
export function createRpc<Theirs extends Procedures, Ours extends Procedures>(
  port: Port,
  ours: Ours,
): Rpc<Theirs> {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let nextId = 1
  let failure: RpcError | undefined

  function fail(): void {
    failure ??= new RpcError('the other process has ended')
    for (const { reject } of waiting.values()) reject(failure)
    waiting.clear()
  }

  const send = (message: Message) =>
    port.send(message, error => {
      if (error) fail()
    })

  async function respond(id: number, name: string, input: unknown): Promise<void> {
    try {
      const procedure = ours[name] as ((input: unknown) => unknown) | undefined
      if (!procedure) throw new RpcError(`there is no procedure "${name}"`)
      send({ response: id, output: await procedure(input) })
    } catch (error) {
      send({
        response: id,
        failure: (error as Error).message,
        isStoreError: error instanceof UnreachableError,
      })
    }
  }

  port.onMessage(data => {
    const message = data as Message
    if ('call' in message) return void respond(message.call, message.name, message.input)
    if ('notify' in message)
      return void (ours[message.notify] as ((input: unknown) => unknown) | undefined)?.(message.input)
    const caller = waiting.get(message.response)
    waiting.delete(message.response)
    if ('failure' in message) caller?.reject(failureOf(message))
    else caller?.resolve(message.output)
  })

  return {
    call<Name extends keyof Theirs & string>(
      name: Name,
      input: Input<Theirs, Name>,
    ): Promise<Output<Theirs, Name>> {
      if (failure) return Promise.reject(failure)
      const id = nextId++
      const caller = Promise.withResolvers<unknown>()
      waiting.set(id, caller)
      send({ call: id, name, input })
      return caller.promise as Promise<Output<Theirs, Name>>
    },
    notify<Name extends keyof Theirs & string>(name: Name, input: Input<Theirs, Name>): void {
      if (!failure) send({ notify: name, input })
    },
    fail,
  }
}

export type Rpc<Theirs extends Procedures> = {
  call<Name extends keyof Theirs & string>(
    name: Name,
    input: Input<Theirs, Name>,
  ): Promise<Output<Theirs, Name>>
  /** Calls a procedure without waiting for a response. */
  notify<Name extends keyof Theirs & string>(name: Name, input: Input<Theirs, Name>): void
  /** Rejects all open and later calls: the other process has ended. */
  fail(): void
}
