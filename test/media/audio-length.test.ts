import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SOUNDS, type SoundName } from '../../simulator/sound.ts'
import { soundKind } from '../../src/media/audio/kind.ts'
import { measureSound } from '../../src/media/audio/length.ts'
import { createSoundMeter } from '../../src/media/audio/sound-meter.ts'

const stored = (bytes: Buffer) => ({
  size: bytes.length,
  read: async (offset: number, length: number) => bytes.subarray(offset, offset + length),
})

const soundOf = (name: SoundName, seconds: number) => Buffer.concat(SOUNDS[name].pieces(seconds))

const box = (type: string, ...content: Buffer[]) => {
  const inside = Buffer.concat(content)
  const head = Buffer.alloc(8)
  head.writeUInt32BE(8 + inside.length, 0)
  head.write(type, 4, 'latin1')
  return Buffer.concat([head, inside])
}

function mvhd(scale: number, duration: number): Buffer {
  const bytes = Buffer.alloc(100)
  bytes.writeUInt32BE(scale, 12)
  bytes.writeUInt32BE(duration, 16)
  return box('mvhd', bytes)
}

function element(id: string, content: Buffer): Buffer {
  const size = Buffer.alloc(8)
  size.writeBigUInt64BE(BigInt(content.length))
  size[0] = 0x01
  return Buffer.concat([Buffer.from(id, 'hex'), size, content])
}

const float = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(value)
  return bytes
}

const EBML_HEAD = element('1a45dfa3', Buffer.alloc(4))
const SCALE = element('2ad7b1', Buffer.from([0x0f, 0x42, 0x40]))

/** A FLAC frame as an encoder writes it: fixed blocks of 4,096 samples at 24 kHz. */
function flacFrame(number: number): Buffer {
  const head = Buffer.from([0xff, 0xf8, 0xc7, 0x08, number])
  let crc = 0
  for (const byte of head) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x80 ? ((crc << 1) ^ 7) & 0xff : (crc << 1) & 0xff
  }
  return Buffer.concat([head, Buffer.from([crc]), Buffer.alloc(500)])
}

describe('an audio file', () => {
  it('is recognized by its content, whatever its name', () => {
    for (const [name, kind] of [
      ['mp3', 'mp3'],
      ['wav', 'wav'],
      ['flac', 'flac'],
      ['opus', 'ogg'],
      ['aac', 'aac'],
    ] as const)
      assert.equal(soundKind(soundOf(name, 1)), kind)
    assert.equal(soundKind(Buffer.concat([Buffer.alloc(100), soundOf('mp3', 1)])), 'mp3')
    assert.equal(soundKind(box('ftyp', Buffer.from('M4A '))), 'mp4')
    assert.equal(soundKind(EBML_HEAD), 'webm')
    for (const other of ['', 'hello', '<html>', '%PDF-1.7', '\x89PNG\r\n', 'PK\x03\x04', '\xff\xff\xff\xff'])
      assert.equal(soundKind(Buffer.from(other.padEnd(200, ' '), 'latin1')), undefined, other)
  })

  it('has its length in its headers', async () => {
    for (const name of ['wav', 'mp3', 'aac', 'opus', 'flac'] as const) {
      const { seconds } = await measureSound(stored(soundOf(name, 75)))
      assert.ok(seconds !== undefined && Math.abs(seconds - 75) < 0.1, `${name}: ${seconds}`)
    }
  })

  it('has its length in an MP4, also after the audio data, and in fragments', async () => {
    const ftyp = box('ftyp', Buffer.from('M4A '))
    const sound = box('mdat', Buffer.alloc(5_000))
    const behind = Buffer.concat([ftyp, sound, box('moov', mvhd(1_000, 12_500))])
    assert.deepEqual(await measureSound(stored(behind)), { kind: 'mp4', seconds: 12.5 })
    const mehd = Buffer.alloc(8)
    mehd.writeUInt32BE(30_000, 4)
    const fragments = Buffer.concat([ftyp, box('moov', mvhd(1_000, 0), box('mvex', box('mehd', mehd)))])
    assert.equal((await measureSound(stored(fragments))).seconds, 30)
    const nothing = Buffer.concat([ftyp, sound])
    assert.equal((await measureSound(stored(nothing))).seconds, undefined)
  })

  it('has its length in a WebM, or in its last cluster if a browser recorded it', async () => {
    const webmWithDuration = Buffer.concat([
      EBML_HEAD,
      element('1549a966', Buffer.concat([SCALE, element('4489', float(8_000))])),
    ])
    assert.deepEqual(await measureSound(stored(webmWithDuration)), { kind: 'webm', seconds: 8 })
    const cluster = (ms: number) => {
      const time = Buffer.alloc(2)
      time.writeUInt16BE(ms)
      return element('1f43b675', Buffer.concat([element('e7', time), Buffer.alloc(300)]))
    }
    const recorded = Buffer.concat([EBML_HEAD, element('1549a966', SCALE), cluster(0), cluster(20_000)])
    const { seconds } = await measureSound(stored(recorded))
    assert.ok(seconds !== undefined && seconds >= 20 && seconds <= 26, String(seconds))
  })

  it('with a variable bit rate has the frame count of its first frame', async () => {
    const first = Buffer.concat([Buffer.from([0xff, 0xfb, 0x90, 0x00]), Buffer.alloc(413)])
    first.write('Xing', 36)
    first.writeUInt32BE(1, 40)
    first.writeUInt32BE(1_000, 44)
    const { seconds } = await measureSound(stored(Buffer.concat([first, soundOf('mp3', 2)])))
    assert.ok(Math.abs((seconds ?? 0) - (1_000 * 1152) / 44_100) < 0.001)
  })

  it('with a leading tag is measured after the tag', async () => {
    const tag = Buffer.alloc(10 + 3_000)
    tag.write('ID3\x04', 0, 'latin1')
    tag.writeUInt8(3_000 >> 7, 8)
    tag.writeUInt8(3_000 & 127, 9)
    const { kind, seconds } = await measureSound(stored(Buffer.concat([tag, soundOf('mp3', 9)])))
    assert.equal(kind, 'mp3')
    assert.ok(Math.abs((seconds ?? 0) - 9) < 0.1)
  })

  it('that is truncated, empty or invalid has no length, and causes no error', async () => {
    const whole = ['wav', 'mp3', 'aac', 'opus', 'flac'] as const
    for (const name of whole) {
      const bytes = soundOf(name, 1)
      for (const length of [0, 1, 4, 11, 12, 27, 28, 43, 60])
        await measureSound(stored(bytes.subarray(0, length)))
    }
    const loop = Buffer.concat([box('ftyp'), Buffer.alloc(64)])
    assert.equal((await measureSound(stored(loop))).seconds, undefined)
  })
})

describe('audio in transit', () => {
  it('has the same length however it is split', () => {
    for (const name of ['mp3', 'wav', 'pcm', 'aac', 'opus'] as const) {
      const bytes = soundOf(name, 5)
      for (const size of [1, 7, 417, 1_000, bytes.length]) {
        const meter = createSoundMeter(SOUNDS[name].type)
        for (let at = 0; at < bytes.length; at += size) meter?.push(bytes.subarray(at, at + size))
        assert.ok(Math.abs((meter?.seconds() ?? 0) - 5) < 0.1, `${name} by ${size}: ${meter?.seconds()}`)
      }
    }
  })

  it('is measured in FLAC by its frame headers', () => {
    const bytes = Buffer.concat(Array.from({ length: 20 }, (_, at) => flacFrame(at)))
    for (const size of [1, 50, bytes.length]) {
      const meter = createSoundMeter('audio/flac')
      for (let at = 0; at < bytes.length; at += size) meter?.push(bytes.subarray(at, at + size))
      assert.ok(Math.abs((meter?.seconds() ?? 0) - (20 * 4_096) / 24_000) < 0.001, String(size))
    }
  })

  it('has no meter if its type is unknown', () => {
    assert.equal(createSoundMeter('video/mp4'), undefined)
  })
})
