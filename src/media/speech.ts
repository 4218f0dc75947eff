import type { Usage } from '../domain/usage.ts'
import type { Dialect } from './dialect.ts'
import type { SpeechAsk, SpeechFormat } from './speech-request.ts'

/** Speech inside a JSON document. */
type SpeechAnswer = {
  readonly audio: Buffer
  readonly contentType: string
  readonly usage?: Usage | undefined
}

/** A vendor that returns a plain file needs no `decode`: its bytes are forwarded. */
export type SpeechDialect = Pick<Dialect<SpeechAsk, SpeechAnswer>, 'encode'> &
  Partial<Pick<Dialect<SpeechAsk, SpeechAnswer>, 'decode'>> & {
    /** The formats that the vendor supports; the first is its default. */
    readonly formats: readonly SpeechFormat[]
    /** The vendor answers with events; `decode` gets their documents as a list. */
    readonly isEvents?: true
    /** The voices for this dialect, if they differ from the vendor's other ones. */
    readonly voices?: Voices
  }

/** The voices of a vendor. */
export type Voices = {
  /** All voices; absent: they cannot be listed, so any name is forwarded. */
  readonly names?: readonly string[]
  /** The vendor's voices for the six common names, unless a channel's `setting.voices` maps them. */
  readonly standIns?: Readonly<Record<string, string>>
}

const PCM_CHANNELS = 1
const PCM_BITS = 16

/** Wraps raw samples (16 bits, mono) in a WAV file. */
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
