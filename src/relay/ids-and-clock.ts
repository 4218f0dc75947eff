import { randomBytes } from 'node:crypto'
import type { IdsAndClock } from '../chat/hub/format.ts'

const ID_BYTES = 12

/** Unique ids and the current time, for the chat formats. */
export const createIdsAndClock = (nowMs: () => number): IdsAndClock => ({
  newId: prefix => prefix + randomBytes(ID_BYTES).toString('hex'),
  nowS: () => Math.floor(nowMs() / 1000),
})
