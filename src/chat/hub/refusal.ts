import type { Part, Stop } from './hub.ts'

/** The end of an answer in a format without refusals: the text of a refusal alone looks like any other answer. */
export const stopOf = (stop: Stop, isRefused: boolean): Stop =>
  isRefused && stop.reason === 'stop' ? { ...stop, reason: 'filter' } : stop

export const isRefusal = ({ type }: Part): boolean => type === 'refusal'
