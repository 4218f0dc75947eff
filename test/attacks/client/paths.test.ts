import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import Fastify, { type FastifyInstance } from 'fastify'
import { Refusal } from '../../../src/domain/errors.ts'
import { managementError } from '../../../src/http/errors.ts'
import { serveConsole } from '../../../src/manage/server/console.ts'

describe('a path that leads out of the console’s files', () => {
  let app: FastifyInstance
  let root: string
  before(async () => {
    root = mkdtempSync(join(tmpdir(), 'sluice-test-'))
    const build = join(root, 'build')
    mkdirSync(join(build, 'assets'), { recursive: true })
    writeFileSync(join(build, 'assets', 'page.js'), 'page')
    writeFileSync(join(root, 'secret'), 'secret')
    app = Fastify()
    app.setErrorHandler((error, _request, reply) => {
      assert.ok(error instanceof Refusal, String(error))
      const { status, body } = managementError(error)
      return reply.code(status).send(body)
    })
    await serveConsole(app, { basePath: '', consoleBuilds: async () => [build] })
  })
  after(async () => {
    await app.close()
    rmSync(root, { recursive: true, force: true })
  })

  it('is not found, whether there is such a file or not', async () => {
    for (const path of [
      '..%2f..%2fsecret',
      '..%2f..%2fnothing',
      '..%5c..%5csecret',
      'a%00b',
      '..%2f..',
      '.hidden',
    ])
      assert.equal((await app.inject(`/assets/${path}`)).statusCode, 404, path)
    assert.equal((await app.inject('/assets/page.js')).payload, 'page')
  })
})
