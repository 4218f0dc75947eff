import { UnreachableError } from '../../src/domain/errors.ts'
import type { VirtualTime } from './virtual-time.ts'

/** How often each kind of fault happens to a statement or message: a probability. */
export type FaultRates = {
  readonly failedStatement: number
  readonly lostAcknowledgement: number
  readonly slowStatement: number
  readonly lostMessage: number
  readonly repeatedMessage: number
  readonly lateMessage: number
}

export const NO_FAULTS: FaultRates = {
  failedStatement: 0,
  lostAcknowledgement: 0,
  slowStatement: 0,
  lostMessage: 0,
  repeatedMessage: 0,
  lateMessage: 0,
}

type Process = {
  readonly id: string
  isAlive(): boolean
}

type Receiver = Process & { receive(message: unknown): void }

type NetworkDeps = {
  readonly time: VirtualTime
  random(): number
  onFault(fault: string, node: string): void
}

const UP_TO_LATE_MS = 20_000

/** Between the nodes and the store. Nodes of different machines exchange messages through the store only. */
export function createSimulatedNetwork({ time, random, onFault }: NetworkDeps) {
  let rates = NO_FAULTS
  const cutOff = new Set<string>()
  let isStoreUp = true
  let primary = 1
  let executions = 0
  const receivers = new Set<Receiver>()

  const isReachable = (id: string) => isStoreUp && !cutOff.has(id)
  const happens = (rate: number) => rate > 0 && random() < rate
  const broken = (isOutcomeUnknown = false) =>
    new UnreachableError(new Error('the connection broke'), { isOutcomeUnknown })
  /** A process that has died does not go on after it. */
  const whileAlive = async <T>(process: Process, value: T): Promise<T> =>
    process.isAlive() ? value : new Promise<never>(() => {})

  type StatementOptions<T> = {
    readonly name: string
    execute(): T
    /** One statement may be executed when its client has given up. A transaction of several is rolled back. */
    readonly isSingle?: boolean
    /** Called when the answer arrives, before the caller sees it. */
    onAnswer?(): void
  }

  /** A statement is executed between its sending and its answer, or not at all, or later. */
  async function statement<T>(
    process: Process,
    { name, execute, isSingle = false, onAnswer }: StatementOptions<T>,
  ): Promise<T> {
    const { id } = process
    await time.wait(random() * 4)
    if (!isReachable(id) || happens(rates.failedStatement)) {
      onFault(`failed statement: ${name}`, id)
      const sentTo = isStoreUp ? primary : undefined
      if (isSingle && random() < 0.3) {
        onFault(`late statement: ${name}`, id)
        void time.wait(random() * UP_TO_LATE_MS).then(() => {
          try {
            executions += 1
            // A connection leads to one server: another primary does not get what was sent to the previous one.
            if (sentTo === primary) execute()
          } catch {
            // The client does not read the error any more.
          }
        })
      }
      await time.wait(random() * 3_000)
      await whileAlive(process, undefined)
      throw broken()
    }
    let result: T
    executions += 1
    try {
      result = execute()
    } catch (error) {
      await time.wait(random() * 4)
      await whileAlive(process, undefined)
      onAnswer?.()
      throw error
    }
    if (happens(rates.lostAcknowledgement)) {
      onFault(`lost acknowledgement: ${name}`, id)
      await time.wait(random() * 1_500)
      await whileAlive(process, undefined)
      throw broken(true)
    }
    const isSlow = happens(rates.slowStatement)
    if (isSlow) onFault(`slow statement: ${name}`, id)
    await time.wait(random() * (isSlow ? 3_000 : 4))
    // The connection may have broken meanwhile.
    if (!isReachable(id)) {
      onFault(`lost acknowledgement: ${name}`, id)
      await whileAlive(process, undefined)
      throw broken(true)
    }
    await whileAlive(process, undefined)
    onAnswer?.()
    return result
  }

  function deliver(receiver: Receiver, message: unknown): void {
    const { id } = receiver
    if (!isReachable(id) || happens(rates.lostMessage)) {
      onFault('lost message', id)
      return
    }
    const isLate = happens(rates.lateMessage)
    if (isLate) onFault('late message', id)
    time.after(random() * (isLate ? 3_000 : 10), () => {
      if (receiver.isAlive() && isReachable(id)) receiver.receive(message)
    })
  }

  return {
    statement,
    isReachable,
    /** The number of statements that the store has executed. */
    executions: () => executions,
    /** The store sends a message to all connected processes. */
    send(message: unknown): void {
      for (const receiver of receivers) {
        if (!receiver.isAlive()) {
          receivers.delete(receiver)
          continue
        }
        deliver(receiver, message)
        if (!happens(rates.repeatedMessage)) continue
        onFault('repeated message', receiver.id)
        deliver(receiver, message)
      }
    },
    connect(receiver: Receiver): void {
      receivers.add(receiver)
    },
    disconnect(receiver: Receiver): void {
      receivers.delete(receiver)
    },
    cut: (id: string) => void cutOff.add(id),
    rejoin: (id: string) => void cutOff.delete(id),
    /** After it was down, another server is the primary. */
    setStoreUp(value: boolean): void {
      isStoreUp = value
      if (!value) primary += 1
    },
    setRates(value: FaultRates): void {
      rates = value
    },
  }
}

export type SimulatedNetwork = ReturnType<typeof createSimulatedNetwork>
