import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'
import { chat } from '../src/relay/operations/openai.ts'
import { readJson } from '../src/wire/json-skim.ts'

/** How long bodies that were made to hurt hold up the event loop while they are read: `node bench/hostile-bodies.ts`. */

const MB = 1_048_576
const SIZE = 60 * MB
const chatOf = (content: string) => `{"model":"m","messages":[{"role":"user","content":${content}}]}`
const fill = (piece: (index: number) => string, size: number) => {
  const pieces: string[] = []
  let length = 0
  for (let index = 0; length < size; index++) {
    const next = piece(index)
    pieces.push(next)
    length += next.length + 1
  }
  return pieces.join(',')
}

const BODIES: Readonly<Record<string, () => string>> = {
  'one text of 60 MB': () => chatOf(`"${'a'.repeat(SIZE)}"`),
  'a text of escapes': () => chatOf(`"${'\\"'.repeat(SIZE / 2)}"`),
  'deep brackets': () => chatOf('['.repeat(SIZE)),
  'millions of names': () => chatOf(`{${fill(index => `"k${index}":1`, SIZE)}}`),
  'millions of numbers': () => chatOf(`[${fill(() => '1', SIZE)}]`),
  'texts of 1,000 letters': () => chatOf(`[${fill(() => `"${'x'.repeat(1_000)}"`, SIZE)}]`),
  'the most names that are taken': () => chatOf(`[${fill(index => `{"k${index}":1}`, 9_900 * 12)}]`),
  'the most texts that are taken': () => chatOf(`[${fill(index => `"t${index}"`, 99_000 * 8)}]`),
  'the most numbers that are taken': () => chatOf(`[${fill(() => '12345', 340_000 * 6)}]`),
}

const ROUNDS = 5
const settle = () => new Promise(resolve => setTimeout(resolve, 30))

async function stallOf(bytes: Buffer): Promise<{ stallMs: number; outcome: string }> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await settle()
  delay.reset()
  const outcome = await readJson(bytes, true)
    .then(async ({ value, members }) => {
      await setImmediate()
      chat.read(value as Record<string, unknown>, bytes, members)
      return 'taken'
    })
    .catch(error => (error as Error).message)
  await settle()
  delay.disable()
  return { stallMs: delay.max / 1e6, outcome }
}

for (const [name, make] of Object.entries(BODIES)) {
  const bytes = Buffer.from(make())
  const rounds: Awaited<ReturnType<typeof stallOf>>[] = []
  for (let round = 0; round < ROUNDS; round++) rounds.push(await stallOf(bytes))
  // The least of several: a busy machine only ever adds to it.
  const stallMs = Math.min(...rounds.map(round => round.stallMs))
  process.stdout.write(
    `${name}: ${(bytes.length / MB).toFixed(1)} MB, longest stall ${stallMs.toFixed(0)} ms, ${rounds[0]?.outcome}\n`,
  )
}
