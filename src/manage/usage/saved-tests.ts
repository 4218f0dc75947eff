import type { Actor } from '../../domain/actor.ts'
import { notFound, Refusal } from '../../domain/errors.ts'
import { mapConcurrently } from '../../domain/map-concurrently.ts'
import { ROLE } from '../../domain/role.ts'
import { testPlace } from '../../identity/body-seal.ts'
import type { SavedTestRow } from '../../store/engine/schema.ts'
import type { Db } from '../../store/engine/store.ts'
import {
  countSavedTests,
  deleteSavedTest,
  findSavedTests,
  insertSavedTest,
  listSavedTests,
  updateSavedTest,
} from '../../store/records/saved-tests.ts'
import type { replayContract } from '../contract/replay.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'
import { openBody } from './bodies.ts'
import { type Expectation, faultOf, mustBeUsable } from './expectation.ts'
import { createResend, type Destination, mustMayChoose, savedRequestOf } from './replay.ts'

const MAX_TESTS = 1_000
const MAX_RUN = 100
const CONCURRENCY = 4
/** Answers in results are cut. */
const MAX_SHOWN = 10_000

const presentTest = (row: SavedTestRow) => ({
  id: row.id,
  user_id: row.user_id,
  name: row.name,
  path: row.path,
  model: row.model,
  check: JSON.parse(row.expectation) as Expectation,
  created_time: row.created_time,
})

/** The tests that a person may see: Root all, others their own. A test has the body of a request. */
const visibleTo = (actor: Actor) => ({ userId: actor.role === ROLE.root ? undefined : actor.id })

async function mustFindTest(db: Db, actor: Actor, id: number): Promise<SavedTestRow> {
  const [row] = await findSavedTests(db, visibleTo(actor), [id])
  if (!row) throw notFound('test')
  return row
}

const judgePrompt = (question: string, answer: string) =>
  `Judge the answer below. ${question}\n\nReply with yes or no only.\n\n<answer>\n${answer}\n</answer>`

type Runner = { readonly actor: Actor; readonly address: string }

/** Saved tests (docs/operating/bodies.md: Saved tests). */
export function createTestHandlers(deps: Deps): Handlers<Omit<typeof replayContract, 'replay'>> {
  const { db, bodySeal, now } = deps
  const resend = createResend(deps)

  async function testsToRun(actor: Actor, ids: readonly number[] | undefined): Promise<SavedTestRow[]> {
    if (ids === undefined)
      return (await listSavedTests(db, { userId: actor.id }, { page: 1, pageSize: MAX_RUN })).items
    const rows = await findSavedTests(db, visibleTo(actor), ids)
    if (rows.length < new Set(ids).size) throw notFound('test')
    return rows
  }

  async function runTest(row: SavedTestRow, to: Destination, runner: Runner) {
    const { path, model } = row
    const body = bodySeal.open(testPlace(row.id), row.content)
    const result = await resend({ path, model, body }, to, runner)
    const ask = (judge: string, question: string, answer: string) => {
      const messages = [{ role: 'user', content: judgePrompt(question, answer) }]
      const request = Buffer.from(JSON.stringify({ model: judge, messages }))
      return resend({ path: '/v1/chat/completions', model: judge, body: request }, {}, runner)
    }
    const reason =
      result.status === 200
        ? await faultOf(JSON.parse(row.expectation), result.answer, ask)
        : `The request got the status ${result.status}.`
    const answer = result.answer.slice(0, MAX_SHOWN)
    return { ...result, answer, test_id: row.id, name: row.name, passed: reason === '', reason }
  }

  return {
    listTests: async ({ actor, query: { paging } }) =>
      presentPage(await listSavedTests(db, visibleTo(actor), paging), paging, presentTest),

    createTest: async ({ actor, body, change }) => {
      mustBeUsable(body.check)
      const { exchange, request } = await openBody(deps, body.request_id, actor)
      const saved = savedRequestOf(exchange, request)
      return change(async ({ trx, audit }) => {
        if ((await countSavedTests(trx, actor.id)) >= MAX_TESTS)
          throw new Refusal(
            'conflict',
            `A user may have at most ${MAX_TESTS} saved tests. Delete some first.`,
          )
        const test = {
          user_id: actor.id,
          name: body.name,
          path: saved.path,
          model: saved.model,
          expectation: JSON.stringify(body.check),
          created_time: now(),
        }
        const row = await insertSavedTest(trx, test, id => bodySeal.seal(testPlace(id), saved.body))
        const view = presentTest(row)
        const after = { ...view, request_id: body.request_id }
        audit({ action: 'test.create', target: `test:${row.id}`, after })
        return view
      })
    },

    updateTest: async ({ actor, body, change }) => {
      if (body.check !== undefined) mustBeUsable(body.check)
      return change(async ({ trx, audit }) => {
        const before = await mustFindTest(trx, actor, body.id)
        await updateSavedTest(trx, before.id, {
          ...(body.name !== undefined && { name: body.name }),
          ...(body.check !== undefined && { expectation: JSON.stringify(body.check) }),
        })
        const after = presentTest(await mustFindTest(trx, actor, before.id))
        audit({ action: 'test.update', target: `test:${before.id}`, before: presentTest(before), after })
        return after
      })
    },

    deleteTest: async ({ actor, params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await mustFindTest(trx, actor, params.id)
        await deleteSavedTest(trx, row.id)
        audit({ action: 'test.delete', target: `test:${row.id}`, before: presentTest(row) })
        return undefined
      }),

    runTests: async ({ actor, address, body, change }) => {
      mustMayChoose(actor, body)
      const rows = await testsToRun(actor, body.test_ids)
      const runner = { actor, address }
      const results = await mapConcurrently(rows, CONCURRENCY, row => runTest(row, body, runner))
      const passed = results.filter(result => result.passed).length
      const sums = { passed, failed: results.length - passed }
      return change(async ({ audit }) => {
        const { model, channel_id } = body
        audit({ action: 'test.run', target: 'tests', after: { ...sums, model, channel_id } })
        return { ...sums, results }
      })
    },
  }
}
