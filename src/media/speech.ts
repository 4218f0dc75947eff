import type { Usage } from '../domain/usage.ts'
import type { Dialect } from './dialect.ts'
import type { SpeechAsk, SpeechFormat } from './speech-request.ts'

/** Speech that came inside a document. */
type SpokenAnswer = {
  readonly audio: Buffer
  readonly contentType: string
  readonly usage?: Usage | undefined
}

/** A vendor that answers a bare file needs no `decode`: its bytes pass as they come. */
export type SpeechDialect = Pick<Dialect<SpeechAsk, SpokenAnswer>, 'encode'> &
  Partial<Pick<Dialect<SpeechAsk, SpokenAnswer>, 'decode'>> & {
    /** What it can be asked for; the first is what is had where the client does not say. */
    readonly formats: readonly SpeechFormat[]
    /** It answers with events; `decode` is given their documents as a list. */
    readonly isEvents?: true
    /** Where they are others than the vendor's usual ones. */
    readonly voices?: Voices
  }

/** The voices of a vendor. */
export type Voices = {
  /** All voices; absent where they cannot be listed, so that any name is passed on. */
  readonly names?: readonly string[]
  /** The vendor's voices for the six common names, where a channel's `setting.voices` maps none. */
  readonly standIns?: Readonly<Record<string, string>>
}

const PCM_CHANNELS = 1
const PCM_BITS = 16

/** A file of raw samples: 16 bits, one channel. */
export function wavOf(samples: Buffer, rate: number): Buffer {
  const header = Buffer.alloc(44)
  const frame = (PCM_CHANNELS * PCM_BITS) / 8
  header.write('RIFF', 0)
  header.writeUInt32LE(36 + samples.length, 4)
  header.write('WAVEfmt ', 8)
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(PCM_CHANNELS, 22)
  header.writeUInt32LE(rate, 24)
  header.writeUInt32LE(rate * frame, 28)
  header.writeUInt16LE(frame, 32)
  header.writeUInt16LE(PCM_BITS, 34)
  header.write('data', 36)
  header.writeUInt32LE(samples.length, 40)
  return Buffer.concat([header, samples])
}
