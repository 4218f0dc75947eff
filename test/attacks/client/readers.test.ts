import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { Refusal } from '../../../src/domain/errors.ts'
import { createBudget, createShare } from '../../../src/http/budget.ts'
import type { Forms } from '../../../src/relay/intake/form.ts'
import { readRequest } from '../../../src/relay/intake/read-request.ts'
import { operationAt } from '../../../src/relay/operations/index.ts'
import type { Work } from '../../../src/relay/operations/operation.ts'
import { videoSpec } from '../../../src/relay/videos/request.ts'
import { fieldsOf, type GoodRequest, hostileRequest, MODEL } from '../../support/hostile-requests.ts'
import { READERS, readTree, understood } from '../../support/name-readers.ts'
import { fc } from '../../support/properties.ts'
import { READ_CONTEXT } from '../../support/read-context.ts'

const SEED = 4_021
const RUNS = 3_000
const MODEL_MAXIMUM = 1_000

const bounds = {
  share: createShare(createBudget({ maxBytes: Number.MAX_SAFE_INTEGER, onShortage() {} })),
  isFunded: async () => true,
}
const deps = { maxBodyBytes: 1_048_576, forms: {} as Forms, readContext: READ_CONTEXT }

/** The request as the gateway reads it; undefined where it refuses it. */
async function readBy({ path }: GoodRequest, text: string): Promise<Work | undefined> {
  const request = Object.assign(Readable.from([Buffer.from(text)]), { headers: {}, complete: false })
  const spec = operationAt(path, path) ?? videoSpec
  try {
    return await readRequest(request as unknown as IncomingMessage, spec, deps, bounds)
  } catch (error) {
    assert.ok(error instanceof Refusal, String(error))
    assert.ok(
      ['invalid_parameter', 'invalid_json', 'missing_parameter', 'thread_not_found'].includes(error.code),
    )
    return undefined
  }
}

type Understood = Readonly<Record<string, unknown>>

const greatest = (body: Understood, names: readonly string[]) =>
  Math.max(...names.map(name => Number(body[name])).filter(Number.isFinite))

const LIMITS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'max_new_tokens', 'num_predict']
const CHOICES = ['n', 'best_of', 'num_return_sequences']

/** Tokens that a server makes which goes by the greatest limit and number that it was given. */
function outputOf(body: Understood): number {
  const limit = greatest(body, LIMITS)
  return (limit > 0 ? limit : MODEL_MAXIMUM) * Math.max(1, greatest(body, CHOICES))
}

describe('for any names in a request', () => {
  it('every server reads what the gateway has priced, or the request is refused', async () => {
    const counts = { taken: 0, refused: 0 }
    await fc.assert(
      fc.asyncProperty(hostileRequest, async ({ good, text }) => {
        const work = await readBy(good, text)
        counts[work ? 'taken' : 'refused'] += 1
        if (work === undefined) return
        const tree = readTree(text)
        const readings = Object.entries(READERS).map(
          ([name, reader]) => [name, understood(reader, tree, fieldsOf(good)) as Understood] as const,
        )
        const [[, first] = ['', {}]] = readings
        for (const [name, reading] of readings) {
          assert.deepEqual(reading, first, `${name} reads ${text} otherwise`)
          if ('model' in reading)
            assert.equal(work.model, String(reading.model).replace(/^models\//, ''), text)
          if (good.isChat)
            assert.ok(work.outputTokens(MODEL_MAXIMUM) >= outputOf(reading), `${name} makes more of ${text}`)
        }
        assert.equal(work.model === MODEL || first.model === work.model, true)
      }),
      { seed: SEED, numRuns: RUNS },
    )
    // Both happen often enough for the comparison to mean something.
    assert.ok(counts.taken > RUNS / 10 && counts.refused > RUNS / 10, JSON.stringify(counts))
  })
})
