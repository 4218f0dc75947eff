import { z } from 'zod'
import { requestIdText } from './bodies.ts'
import { id, idParams, modelName, optional, paged, pageOf, text } from './fields.ts'
import type { Contract } from './route.ts'

/** Where a request is sent again. */
export const destination = {
  model: optional(text({ min: 1, max: 255 })).describe('Absent: the model of the request'),
  channel_id: optional(id).describe('For administrators; absent: routing chooses. May be disabled'),
}

const figures = {
  request_id: z.string(),
  status: z.int(),
  answer: z.string().describe('The text of a chat; else the whole body'),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cost: z.string().describe('USD, exact'),
  ms: z.int(),
  first_ms: z.int().nullable().describe('Time to the first token, if it is known'),
}

const replayView = z
  .object({
    ...figures,
    model: z.string(),
    channel_id: z.int().nullable().describe('For administrators'),
    original: z.object({ ...figures, model: z.string() }),
  })
  .meta({ id: 'Replay' })

const MAX_RUN = 100
const MAX_SCHEMA = 16_384

/** How the answer of a saved test is checked (docs/operating/bodies.md: Saved tests). */
export const expectation = z.discriminatedUnion('kind', [
  z.object({
    kind: z.enum(['contains', 'equals', 'matches']),
    value: z
      .string()
      .min(1)
      .max(4_000)
      .describe('A text; of `matches` an RE2 expression of up to 500 characters'),
  }),
  z.object({
    kind: z.literal('schema'),
    schema: z
      .record(z.string(), z.unknown())
      .refine(
        schema => JSON.stringify(schema).length <= MAX_SCHEMA,
        `must have at most ${MAX_SCHEMA} characters`,
      )
      .describe('A JSON schema, without patterns'),
  }),
  z.object({
    kind: z.literal('judge'),
    model: modelName,
    question: text({ min: 1, max: 4_000, lines: true }).describe('Answered with yes or no; yes passes'),
  }),
])

const testName = text({ min: 1, max: 100 })

const testView = z
  .object({
    id: z.int(),
    user_id: z.int(),
    name: z.string(),
    path: z.string(),
    model: z.string(),
    check: expectation,
    created_time: z.int(),
  })
  .meta({ id: 'SavedTest' })

const resultView = z
  .object({
    ...figures,
    test_id: z.int(),
    name: z.string(),
    model: z.string(),
    channel_id: z.int().nullable(),
    passed: z.boolean(),
    reason: z.string().describe('Why the check failed; empty if it passed'),
  })
  .meta({ id: 'TestResult' })

export const replayContract = {
  listTests: {
    method: 'GET',
    path: '/api/replay/test/',
    access: 'user',
    summary: 'Saved tests, newest first: your own, and all for Root',
    query: paged({}),
    data: pageOf(testView),
  },
  createTest: {
    method: 'POST',
    path: '/api/replay/test/',
    access: 'user',
    summary: 'Save a request whose body is kept as a test, with a check of its answer; audited',
    body: z.object({ request_id: requestIdText, name: testName, check: expectation }),
    data: testView,
  },
  updateTest: {
    method: 'PUT',
    path: '/api/replay/test/',
    access: 'user',
    summary: 'Change only the fields sent',
    body: z.object({ id, name: optional(testName), check: optional(expectation) }),
    data: testView,
  },
  deleteTest: {
    method: 'DELETE',
    path: '/api/replay/test/:id',
    access: 'user',
    summary: 'Delete a saved test',
    params: idParams,
  },
  runTests: {
    method: 'POST',
    path: '/api/replay/run',
    access: 'user',
    summary: `Send saved tests again and check their answers. Without \`test_ids\` your own newest ${MAX_RUN}. Charged to you; audited`,
    body: z.object({ test_ids: optional(z.array(id).min(1).max(MAX_RUN)), ...destination }),
    data: z.object({ passed: z.int(), failed: z.int(), results: z.array(resultView) }),
  },
  replay: {
    method: 'POST',
    path: '/api/replay',
    access: 'user',
    summary:
      'Send a request whose body is kept again, perhaps to another model or channel, and compare the answers. Charged to you; audited',
    body: z.object({ request_id: requestIdText, ...destination }),
    data: replayView,
  },
} as const satisfies Contract
