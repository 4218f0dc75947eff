import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { describe, it } from 'node:test'
import { parse } from 'yaml'
import { commandFolder } from '../../support/command-folder.ts'
import { oneEngine } from '../../support/gateway.ts'
import { newGround, settingsOf, startServer } from '../../support/process.ts'
import { startRecorder } from '../../support/recorder.ts'

const KEY = 'sk-provider-canary-1234567'
const CHANGES = 2

const yaml = (url: string, target = 'served') => `version: 1
channels:
  - name: provider
    type: 1
    base_url: ${url}
    key: env:PROVIDER_KEY
    models: [served, other]
aliases:
  - {name: asked, target: ${target}, channels: [provider]}
prices:
  - {model: served, input: 1, output: 2}
  - {model: other, input: 1, output: 2}
tokens:
  - name: app
    unlimited_quota: true
`

describe('sluice apply (docs/operating/configuration-as-code.md: Apply a file)', () => {
  for (const engine of oneEngine('sqlite'))
    for (const workers of engine === 'sqlite' ? [1, 2] : [2])
      it(`configures a running gateway of ${workers} workers on ${engine}`, async () => {
        const ground = { ...(await newGround(engine)), env: { SLUICE_WORKERS: String(workers) } }
        const { sluice, sluiceProcess, write, file } = commandFolder({
          ...settingsOf(ground),
          PROVIDER_KEY: KEY,
        })
        const provider = await startRecorder()
        const server = await startServer(ground)
        try {
          write('sluice.yaml', yaml(provider.url))
          const planned = await sluice('apply', '-f', 'sluice.yaml', '--dry-run')
          assert.equal(planned.code, CHANGES, planned.stderr)
          assert.match(planned.stdout, /^ {2}\+ channel "provider"\n {6}name: "provider"\n {6}type: 1\n/)
          assert.match(planned.stdout, /\n {6}key: \(secret\)\n/)
          assert.match(planned.stdout, /\nPlan: 5 to create, 0 to change, 0 to delete\.\n$/)
          assert.doesNotMatch(planned.stdout, /canary/)

          const applied = await sluiceProcess('apply', '-f', 'sluice.yaml', '--secrets-out', 'secrets.json')
          assert.deepEqual([applied.code, applied.stderr], [0, ''])
          assert.match(applied.stdout, /\nApplied: 5 created, 0 changed, 0 deleted\.\n$/)
          assert.doesNotMatch(applied.stdout, /sk-/)
          assert.equal(statSync(file('secrets.json')).mode & 0o777, 0o600)
          const { secrets } = JSON.parse(readFileSync(file('secrets.json'), 'utf8'))
          assert.deepEqual([secrets.length, secrets[0].name, secrets[0].username], [1, 'app', 'root'])

          const chat = { model: 'asked', messages: [{ role: 'user', content: 'hello' }] }
          const ask = () => server.api('POST', '/v1/chat/completions', chat, { token: secrets[0].value })
          const reply = await ask()
          assert.equal(reply.status, 200, reply.text)
          assert.equal(provider.last().headers.authorization, `Bearer ${KEY}`)
          assert.equal(provider.last().body.model, 'served')

          const again = await sluice('apply', '-f', 'sluice.yaml', '--secrets-out', 'secrets.json')
          assert.deepEqual(
            [again.code, again.stdout],
            [0, 'No changes: the gateway has the configuration of the file.\n'],
          )
          assert.equal(JSON.parse(readFileSync(file('secrets.json'), 'utf8')).secrets.length, 1)
          assert.equal((await sluice('apply', '-f', 'sluice.yaml', '--dry-run')).code, 0)

          write('sluice.yaml', yaml(provider.url, 'other'))
          assert.equal((await sluice('apply', '-f', 'sluice.yaml')).code, 0)
          // The change is in effect in every worker as soon as the command ends.
          for (let round = 0; round < 2 * workers; round++) {
            assert.equal((await ask()).status, 200)
            assert.equal(provider.last().body.model, 'other')
          }
        } finally {
          await provider.close()
          await server.stop()
        }
        const stopped = await sluice('apply', '-f', 'sluice.yaml', '--json')
        assert.deepEqual([stopped.code, JSON.parse(stopped.stdout).changes], [0, []])

        const exported = await sluiceProcess('export', 'exported.yaml')
        assert.deepEqual([exported.code, exported.stderr], [0, ''])
        const text = readFileSync(file('exported.yaml'), 'utf8')
        assert.doesNotMatch(text, /canary|sk-/)
        assert.deepEqual(parse(text).channels[0].models, ['served', 'other'])
        assert.equal((await sluice('apply', '-f', 'exported.yaml', '--dry-run')).code, 0)
        assert.equal((await sluice('export', 'exported.yaml')).code, 1)
      })

  it('is listed and rolled back through the socket of a running gateway', async () => {
    const ground = await newGround('sqlite')
    const { sluice, write } = commandFolder(settingsOf(ground))
    write('one.yaml', 'version: 1\naliases: [{name: a, target: b}]\n')
    write('two.yaml', 'version: 1\naliases: [{name: a, target: c}]\n')
    const server = await startServer(ground)
    for (const name of ['one', 'two']) assert.equal((await sluice('apply', '-f', `${name}.yaml`)).code, 0)
    const log = JSON.parse((await sluice('config', 'log', '--json', '--limit', '2')).stdout)
    assert.equal(log.length, 2)
    const restored = await sluice('config', 'rollback', '2')
    assert.deepEqual([restored.code, restored.stderr], [0, ''])
    const { items } = (await server.api('GET', '/api/alias/')).body.data
    assert.equal(items[0].target, 'b')
    assert.equal((await server.stop()).code, 0)
  })
})
