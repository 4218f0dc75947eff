import type { IncomingHttpHeaders } from 'node:http'
import * as content from './faults/content.ts'
import * as endings from './faults/endings.ts'
import * as errors from './faults/errors.ts'
import type { Fault, FaultContext } from './faults/fault.ts'
import * as usage from './faults/usage.ts'
import * as wire from './faults/wire.ts'
import { ProviderError } from './provider-error.ts'
import type { Script } from './script.ts'
import { bound } from './steering.ts'

const STATUS = [300, 599] as const
const DAY_SECONDS = 86_400

/** All faults. `N` in a name is a number. */
export const FAULTS = {
  hang: { spoil: endings.hang },
  reset: { spoil: endings.reset },
  'cut-N': { spoil: endings.cut },
  'eof-N': { spoil: endings.eof },
  preamble: { spoil: endings.preamble },
  'stall-N': { spoil: endings.stall },
  drip: { spoil: endings.drip },
  'slow-N': { spoil: endings.slow, bounds: [[0, bound('latencyMs', Number.POSITIVE_INFINITY)]] },
  'early-413': { spoil: endings.early, isEarly: true },

  'status-N': { spoil: errors.status, bounds: [STATUS] },
  'status-N-retry-N': { spoil: errors.statusRetry, bounds: [STATUS, [0, DAY_SECONDS]] },
  'status-N-retry-date': { spoil: errors.statusRetryDate, bounds: [STATUS] },
  'status-N-retry-garbage': { spoil: errors.statusRetryGarbage, bounds: [STATUS] },
  'status-N-quota': { spoil: errors.statusQuota, bounds: [STATUS] },
  'error-key': { spoil: errors.errorKey },
  bigerror: { spoil: errors.bigError },
  'flaky-N': { spoil: errors.flaky, bounds: [[0, 100]] },
  redirect: { spoil: errors.redirect },

  html: { spoil: content.html },
  empty: { spoil: content.empty },
  array: { spoil: content.array },
  badjson: { spoil: content.badJson },
  bigline: { spoil: content.bigLine },
  noblank: { spoil: content.noBlank },
  'error-in-stream': { spoil: content.errorInStream },

  nousage: { spoil: usage.noUsage },
  zerousage: { spoil: usage.zeroUsage },
  badusage: { spoil: usage.badUsage },
  'overuse-N': { spoil: usage.overuse },
  dupusage: { spoil: usage.dupUsage },

  gzip: { spoil: wire.gzip },
  'gzip-false': { spoil: wire.gzipFalse },
  'gzip-bomb': { spoil: wire.gzipBomb },
  'length-short': { spoil: wire.lengthShort },
  'length-long': { spoil: wire.lengthLong },
  'length-negative': { spoil: wire.lengthNegative },
  'length-twice': { spoil: wire.lengthTwice },
  'length-chunked': { spoil: wire.lengthChunked },
  'crlf-header': { spoil: wire.crlfHeader },
  bigheader: { spoil: wire.bigHeader },
  interim: { spoil: wire.interim },
  upgrade: { spoil: wire.upgrade },
  http10: { spoil: wire.http10 },
  trailers: { spoil: wire.trailers },
} as const satisfies Record<string, Fault>

const NUMBER_LIMIT = 1_000_000
const LONGEST_NAME = Math.max(...Object.keys(FAULTS).map(name => name.split('-').length))
const KNOWN: ReadonlyMap<string, Fault> = new Map(Object.entries(FAULTS))
const MODEL_LIMIT = 1_000

/** A fault with its numbers, such as `cut-40`. */
export type ActiveFault = {
  readonly name: string
  readonly fault: Fault
  readonly numbers: readonly number[]
}

/** The fault with exactly this name. */
export function findFault(name: string): ActiveFault | undefined {
  const words = name.split('-')
  const fault = KNOWN.get(name) ?? KNOWN.get(words.map(word => (isNumber(word) ? 'N' : word)).join('-'))
  if (fault === undefined) return undefined
  const numbers = KNOWN.has(name) ? [] : words.filter(isNumber).map(Number)
  for (const [at, number] of numbers.entries()) {
    const [least, most] = fault.bounds?.[at] ?? [0, NUMBER_LIMIT]
    if (number >= least && number <= most) continue
    throw new ProviderError(
      'bad_steering',
      `The number in the fault ${name} must be from ${least} to ${most}.`,
    )
  }
  return { name, fault, numbers }
}

/** The first fault in the words of a model's name; of several at the same word, the longest. */
export function faultIn(model: string): ActiveFault | undefined {
  if (!model.startsWith('sim-')) return undefined
  const words = model.split('-')
  for (let start = 1; start < words.length; start += 1) {
    for (let count = LONGEST_NAME; count > 0; count -= 1) {
      const match = start + count <= words.length && findFault(words.slice(start, start + count).join('-'))
      if (match) return match
    }
  }
  return undefined
}

function isNumber(word: string): boolean {
  return /^\d+$/.test(word)
}

export type Faults = ReturnType<typeof createFaults>

/** The faults of one simulator: the one for all requests, and how often each was applied. */
export function createFaults() {
  let forAll: ActiveFault | undefined
  const byModel = new Map<string, ActiveFault | undefined>()
  const turns = new Map<string, number>()

  function faultNamed(name: string): ActiveFault {
    const match = findFault(name)
    if (match === undefined) throw new ProviderError('bad_steering', `There is no fault '${name}'.`)
    return match
  }

  return {
    /** The fault for all requests, or null. */
    current: () => forAll?.name ?? null,
    switchTo(name: string | null): void {
      forAll = name === null ? undefined : faultNamed(name)
    },
    /** Before the body is read: the fault for all requests, else the one in the header. */
    ofRequest(headers: IncomingHttpHeaders): ActiveFault | undefined {
      const headerValue = headers['x-sim-fault']
      return forAll ?? (typeof headerValue === 'string' ? faultNamed(headerValue) : undefined)
    },
    ofModel(model: string): ActiveFault | undefined {
      if (!model.startsWith('sim-')) return undefined
      if (byModel.has(model)) return byModel.get(model)
      if (byModel.size >= MODEL_LIMIT) byModel.clear()
      const match = faultIn(model)
      byModel.set(model, match)
      return match
    },
    spoil(
      { name, fault, numbers }: ActiveFault,
      script: Script,
      scene: Omit<FaultContext, 'numbers' | 'turn'>,
    ): Script {
      const turn = turns.get(name) ?? 0
      turns.set(name, turn + 1)
      return fault.spoil(script, { ...scene, numbers, turn })
    },
  }
}
