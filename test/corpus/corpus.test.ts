import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type CorpusLine, readTranscript } from '../support/corpus.ts'
import { simulateCorpus } from './simulate.ts'

const files = globSync('*/*.jsonl', { cwd: import.meta.dirname }).sort()
const read = (path: string) => readFileSync(join(import.meta.dirname, path), 'utf8')

const KEYS = ['about', 'vendor', 'request', 'status', 'answer', 'expected', 'event', 'exception', 'raw']

describe('the corpus', () => {
  it('is what the simulator says today: if this fails, run `node test/corpus/write.ts` and look at the diff', async () => {
    const simulated = await simulateCorpus()
    const simulatedFiles = files.filter(path => basename(path).startsWith('simulated-'))
    assert.deepEqual(simulatedFiles, [...simulated.keys()].sort())
    for (const [path, text] of simulated) assert.equal(read(path), text, path)
  })

  it('consists of lines that are known, and says what each file is about', () => {
    for (const path of files) {
      const lines = read(path)
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line) as CorpusLine)
      assert.ok(lines[0]?.about, path)
      for (const line of lines)
        for (const key of Object.keys(line)) assert.ok(KEYS.includes(key), `${path}: ${key}`)
      const { request, answer, stream } = readTranscript(dirname(path), basename(path, '.jsonl'), read(path))
      assert.ok(request !== undefined || answer !== undefined || stream !== undefined, path)
      assert.ok(answer === undefined || stream === undefined, `${path}: an answer is whole or a stream`)
      assert.equal(
        /-stream\.jsonl$/.test(path),
        stream !== undefined,
        `${path}: the name says whether it is a stream`,
      )
    }
  })
})
