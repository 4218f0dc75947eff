import { randomBytes } from 'node:crypto'
import type { Ambience } from '../chat/hub/format.ts'

const ID_BYTES = 12

/** What formats need of the world: ids that nobody else has, and the time. */
export const createAmbience = (nowMs: () => number): Ambience => ({
  newId: prefix => prefix + randomBytes(ID_BYTES).toString('hex'),
  nowS: () => Math.floor(nowMs() / 1000),
})
