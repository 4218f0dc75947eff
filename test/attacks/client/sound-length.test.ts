import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { measureSound } from '../../../src/media/audio/length.ts'
import { oneEngine } from '../../support/gateway.ts'
import { soundForm, suiteMedia } from '../../support/media.ts'
import { jsonAnswer, type ScriptedAnswer, startVendor, type Vendor } from '../../support/scripted-vendor.ts'
import { wavFile } from '../../support/wav.ts'

const PER_SECOND = { per_second: 0.0001 }
const SECOND_NANOS = 100_000
const PATH = '/v1/audio/transcriptions'
/** A provider that writes transcripts as bare JSON only. */
const ZHIPU = 26

const stored = (bytes: Buffer) => ({
  size: bytes.length,
  read: async (offset: number, length: number) => bytes.subarray(offset, offset + length),
})

const lengthOf = async (bytes: Buffer) => (await measureSound(stored(bytes))).seconds ?? 0

/** 300 seconds, whose header `change` modifies. */
function wav(change: (bytes: Buffer) => void): Buffer {
  const bytes = wavFile(300)
  change(bytes)
  return bytes
}

const WAVS: Readonly<Record<string, Buffer>> = {
  'a byte rate of four gigabytes': wav(bytes => bytes.writeUInt32LE(0xffffffff, 28)),
  'a byte rate and frames that agree': wav(bytes => {
    bytes.writeUInt32LE(0xffff * 8_000, 28)
    bytes.writeUInt16LE(0xffff, 32)
  }),
  'sound of a few bytes': wav(bytes => bytes.writeUInt32LE(800, 40)),
  'sound in a second piece': Buffer.concat([
    wavFile(0.1),
    Buffer.from('data'),
    (() => {
      const size = Buffer.alloc(4)
      size.writeUInt32LE(2_400_000)
      return size
    })(),
    Buffer.alloc(2_400_000, 0x80),
  ]),
  'a format in a comment before the real one': (() => {
    const file = wavFile(300)
    const decoy = Buffer.alloc(8 + 24)
    decoy.write('LIST', 0)
    decoy.writeUInt32LE(24, 4)
    decoy.write('fmt ', 8)
    decoy.writeUInt32LE(0xffffffff, 8 + 16)
    return Buffer.concat([file.subarray(0, 12), decoy, file.subarray(12)])
  })(),
}

const frameOf = (bitrateIndex: number, bytes: number) =>
  Buffer.concat([Buffer.from([0xff, 0xfb, bitrateIndex << 4, 0x00]), Buffer.alloc(bytes - 4)])
/** MPEG 1, layer 3, 44.1 kHz: 1,152 samples in 104 bytes at 32 kbit/s, in 1,044 at 320. */
const SLOW = frameOf(1, 104)
const FAST = frameOf(14, 1_044)
const FRAME_SECONDS = 1_152 / 44_100
const times = (count: number, frame: Buffer) => Buffer.concat(Array.from({ length: count }, () => frame))

function xing(frames: number): Buffer {
  const first = Buffer.from(frameOf(9, 417))
  first.write('Xing', 36)
  first.writeUInt32BE(1, 40)
  first.writeUInt32BE(frames, 44)
  return first
}

const box = (type: string, ...content: readonly Buffer[]) => {
  const inside = Buffer.concat(content)
  const head = Buffer.alloc(8)
  head.writeUInt32BE(8 + inside.length, 0)
  head.write(type, 4, 'latin1')
  return Buffer.concat([head, inside])
}

const numbers = (length: number, values: Readonly<Record<number, number>>) => {
  const bytes = Buffer.alloc(length)
  for (const [at, value] of Object.entries(values)) bytes.writeUInt32BE(value, Number(at))
  return bytes
}

/** AAC of 16 kHz: the entry claims another rate, the codec's own configuration does not. */
function mp4(samples: number, statedSeconds: number): Buffer {
  const entry = Buffer.alloc(36)
  entry.writeUInt32BE(36, 0)
  entry.write('mp4a', 4, 'latin1')
  entry.writeUInt16BE(65_535, 32)
  // Version, then three nested descriptors, of which the last is the configuration.
  const description = Buffer.from([
    ...[0, 0, 0, 0],
    ...[3, 25, 0, 0, 0],
    ...[4, 17, 0x40, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ...[5, 2, 0x14, 0x08],
  ])
  const stsd = box('stsd', numbers(8, { 4: 1 }), entry, box('esds', description))
  const stbl = box('stbl', stsd, box('stsz', numbers(12, { 8: samples })))
  const trak = box('trak', box('mdia', box('minf', stbl)))
  const mvhd = box('mvhd', numbers(100, { 12: 1_000, 16: statedSeconds * 1_000 }))
  return Buffer.concat([
    box('ftyp', Buffer.from('M4A ')),
    box('moov', mvhd, trak),
    box('mdat', Buffer.alloc(9_000)),
  ])
}

function oggPage(granule: number, ...packets: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(27 + packets.length)
  head.write('OggS', 0)
  head.writeBigUInt64LE(BigInt(granule), 6)
  head.writeUInt8(packets.length, 26)
  for (const [at, packet] of packets.entries()) head.writeUInt8(packet.length, 27 + at)
  return Buffer.concat([head, ...packets])
}

function opus(pages: number): Buffer {
  const head = Buffer.alloc(19)
  head.write('OpusHead', 0)
  // Twenty milliseconds per packet, fifty packets per page, and every page claims to end at the first second.
  const packet = Buffer.from([0x08, 1, 2, 3])
  const page = oggPage(48_000, ...Array.from({ length: 50 }, () => packet))
  return Buffer.concat([oggPage(0, head), times(pages, page)])
}

function element(id: string, content: Buffer): Buffer {
  const size = Buffer.alloc(8)
  size.writeBigUInt64BE(BigInt(content.length))
  size[0] = 0x01
  return Buffer.concat([Buffer.from(id, 'hex'), size, content])
}

function webm(blocks: number): Buffer {
  const duration = Buffer.alloc(8)
  duration.writeDoubleBE(1_000)
  const codec = Buffer.concat([element('d7', Buffer.from([1])), element('86', Buffer.from('A_OPUS'))])
  // All blocks claim to start with their cluster.
  const block = element('a3', Buffer.from([0x81, 0, 0, 0x80, 0x08, 1, 2, 3]))
  const cluster = element('1f43b675', Buffer.concat([element('e7', Buffer.from([0])), times(blocks, block)]))
  return Buffer.concat([
    element('1a45dfa3', Buffer.alloc(4)),
    element('1549a966', element('4489', duration)),
    element('1654ae6b', element('ae', codec)),
    cluster,
  ])
}

const near = (seconds: number, expected: number) =>
  assert.ok(Math.abs(seconds - expected) < expected * 0.01, `${seconds} s instead of ${expected} s`)

describe('an audio file whose header claims that it is short', () => {
  it('is as long as its decoded samples', async () => {
    for (const [name, bytes] of Object.entries(WAVS)) {
      const seconds = await lengthOf(bytes)
      assert.ok(Math.abs(seconds - 300) < 1, `${name}: ${seconds}`)
    }
  })

  it('is as long as its frames, with any first frame and any start of the others', async () => {
    near(await lengthOf(Buffer.concat([xing(1), times(10_000, SLOW)])), 10_001 * FRAME_SECONDS)
    // The first megabytes differ from the rest.
    near(await lengthOf(Buffer.concat([times(2_000, FAST), times(20_000, SLOW)])), 22_000 * FRAME_SECONDS)
    const tag = Buffer.from('ID3\x04\x00\x00\x7f\x7f\x7f\x7f', 'latin1')
    near(await lengthOf(Buffer.concat([times(10, SLOW), tag, times(10_000, SLOW)])), 10_010 * FRAME_SECONDS)
  })

  it('is as long as the samples of an MP4, the packets of an Ogg file and the blocks of a WebM', async () => {
    near(await lengthOf(mp4(4_687, 1)), (4_687 * 1_024) / 16_000)
    near(await lengthOf(opus(300)), 300)
    near(await lengthOf(webm(15_000)), 300)
  })

  it('is as long as its header says if the audio agrees, also with data after the audio', async () => {
    const list = Buffer.concat([Buffer.from('LIST\x00\x00\x10\x00', 'latin1'), Buffer.alloc(1_048_576)])
    assert.equal(await lengthOf(Buffer.concat([wavFile(10), list])), 10)
    near(await lengthOf(mp4(4_687, 300)), 300)
  })
})

for (const engine of oneEngine('sqlite')) {
  describe(`a client that misreports the length of its audio, on ${engine}`, () => {
    const media = suiteMedia(engine)
    let vendor: Vendor
    let answer: ScriptedAnswer
    before(async () => {
      vendor = await startVendor(() => answer)
    })
    after(async () => {
      await vendor.close()
    })

    const fileOf = (bytes: Buffer) => new File([new Uint8Array(bytes)], 'speech.wav')
    const lie = fileOf(WAVS['a byte rate of four gigabytes'] as Buffer)

    it('pays the length that the provider reports, in every transcript format', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND, { base_url: vendor.url })
      const { id, key } = await media.open()
      const segments = [{ id: 0, start: 0, end: 300, text: 'Hello.' }]
      answer = jsonAnswer({
        task: 'transcribe',
        language: 'english',
        duration: 300,
        text: 'Hello.',
        segments,
      })
      const forms = ['text', 'srt', 'vtt']
      for (const response_format of forms) {
        const reply = await media.post(PATH, key, soundForm({ model, response_format }, lie))
        assert.equal(reply.status, 200, reply.text)
        assert.match(reply.text, /Hello\./)
        assert.ok(!reply.text.includes('{'), reply.text)
        assert.match(vendor.seen.at(-1)?.body ?? '', /name="response_format"\r\n\r\nverbose_json/)
      }
      for (const row of await media.rowsOf(id, forms.length)) assert.equal(row.cost, 300 * SECOND_NANOS)
    })

    it('pays the length of the samples if the provider reports none', async () => {
      const { model } = await media.offer('asr', PER_SECOND, { type: ZHIPU, base_url: vendor.url })
      const { id, key } = await media.open()
      answer = jsonAnswer({ text: 'Hello.' })
      for (const bytes of Object.values(WAVS)) {
        const reply = await media.post(
          PATH,
          key,
          soundForm({ model, response_format: 'text' }, fileOf(bytes)),
        )
        assert.equal(reply.text, 'Hello.\n')
      }
      for (const row of await media.rowsOf(id, Object.keys(WAVS).length))
        assert.ok(Math.abs(row.other.seconds - 300) <= 1, String(row.other.seconds))
    })

    it('gets its text unchanged from a host that writes no other format', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND, { base_url: vendor.url })
      const { id, key } = await media.open()
      answer = { type: 'text/plain', body: 'Hello.\n' }
      const reply = await media.post(PATH, key, soundForm({ model, response_format: 'text' }, lie))
      assert.equal(reply.text, 'Hello.\n')
      assert.equal((await media.rowOf(id)).cost, 300 * SECOND_NANOS)
    })

    it('cannot name other audio beside its file, which a host may transcribe instead', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND, { base_url: vendor.url })
      const { key } = await media.open()
      answer = jsonAnswer({ text: 'Hello.' })
      const requests = vendor.seen.length
      for (const path of [PATH, '/v1/audio/translations'])
        for (const name of ['url', 'file_url', 'audio_url', 'audio', 'file_id', 'data', 'url[]']) {
          const form = soundForm({ model, [name]: 'https://long.example/a.mp3' }, fileOf(wavFile(1)))
          const { status, body } = await media.post(path, key, form)
          assert.deepEqual([status, body.error.param], [400, name.replace('[]', '')], `${path} ${name}`)
        }
      assert.equal(vendor.seen.length, requests)
      const reply = await media.post(PATH, key, soundForm({ model, url: '' }, fileOf(wavFile(1))))
      assert.equal(reply.status, 200, reply.text)
    })

    it('does not pay for a length that no file of its size can hold', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND, { base_url: vendor.url })
      const { id, key } = await media.open({ unlimited_quota: true })
      answer = jsonAnswer({ text: 'Hello.', duration: 9_000_000 })
      await media.post(PATH, key, soundForm({ model, response_format: 'verbose_json' }, fileOf(wavFile(10))))
      const row = await media.rowOf(id)
      assert.ok(row.other.seconds < 1_000, String(row.other.seconds))
      assert.equal(row.other.reported.seconds, 9_000_000)
      assert.equal((await media.suspenseOf(id))[0]?.reason, 'implausible_usage')
    })
  })
}
