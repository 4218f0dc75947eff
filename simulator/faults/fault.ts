import type { IncomingHttpHeaders } from 'node:http'
import type { Protocol } from '../formats/format.ts'
import type { Script } from '../script.ts'

/** What a fault may look at: the request, and how often this fault has had its turn. */
export type Scene = {
  readonly format: Protocol
  readonly key: string | undefined
  readonly headers: IncomingHttpHeaders
  /** The path asked for, as it came. */
  readonly url: string
  readonly time: Date
  /** What stands for each N of the fault's name. */
  readonly numbers: readonly number[]
  /** 0 for the first request that this simulator treats with the fault, then 1, 2, … */
  readonly turn: number
}

/** Makes what is sent of what should have been. No sockets, no clocks: `deliver.ts` plays the result. */
export type Spoil = (script: Script, scene: Scene) => Script

export type Fault = {
  readonly spoil: Spoil
  /** The least and the most of each N of its name; a million at most where nothing is said. */
  readonly bounds?: readonly (readonly [least: number, most: number])[]
  /** Answers without waiting for the request's body. */
  readonly isEarly?: true
}
