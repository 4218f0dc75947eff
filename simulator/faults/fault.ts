import type { IncomingHttpHeaders } from 'node:http'
import type { Protocol } from '../formats/format.ts'
import type { Script } from '../script.ts'

/** The input of a fault: the request, and how often this fault was applied. */
export type FaultContext = {
  readonly format: Protocol
  readonly key: string | undefined
  readonly headers: IncomingHttpHeaders
  /** The path of the request, unchanged. */
  readonly url: string
  readonly time: Date
  /** The value of each N in the fault's name. */
  readonly numbers: readonly number[]
  /** 0 for the first request with this fault, then 1, 2, … */
  readonly turn: number
}

/** Turns the correct response into the faulty one. Without sockets and clocks: `deliver.ts` sends the result. */
export type ApplyFault = (script: Script, scene: FaultContext) => Script

export type Fault = {
  readonly spoil: ApplyFault
  /** The minimum and maximum of each N in its name; by default at most a million. */
  readonly bounds?: readonly (readonly [least: number, most: number])[]
  /** Answers before the request's body is read. */
  readonly isEarly?: true
}
