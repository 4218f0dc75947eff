import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { TEST_CERTIFICATE } from '../../support/certificate.ts'
import { startExampleProxy } from '../../support/example-proxy.ts'
import { freePort } from '../../support/free-port.ts'
import { newDirectory, run, until } from '../../support/process.ts'
import { commandOf } from '../../support/program.ts'
import { skipWithout } from '../../support/programs.ts'

// What a new operator does, in this order: install, put nginx in front, apply a configuration, roll it back, upgrade, back up,
// lose the machine, restore. Only the command line and HTTP are used.

type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string }
type Secrets = { readonly secrets: readonly { readonly name: string; readonly [field: string]: string }[] }

const { commands } = JSON.parse((await run(['help', '--json'])).stdout) as { commands: { name: string }[] }
const skip =
  skipWithout(import.meta.filename, 'nginx') ||
  (commands.some(({ name }) => name === 'config rollback')
    ? false
    : 'this version has no "sluice config rollback"')

describe('a new operator', { skip }, () => {
  const home = newDirectory()
  const program = join(home, 'bin/sluice')
  const data = join(home, 'data')
  const file = join(home, 'sluice.yaml')
  const secretsFile = join(home, 'secrets.json')
  const backup = join(home, 'sluice.backup')
  let simulator: Simulator
  let proxy: Awaited<ReturnType<typeof startExampleProxy>>
  let port: number
  let gateway: ChildProcess
  let key: string
  let masterSecret: string

  /** Writes the program beside the installed one and renames it, as `install` does. */
  function install(): void {
    mkdirSync(join(home, 'bin'), { recursive: true })
    const draft = `${program}.new`
    const command = commandOf()
    const [executable = '', script] = command
    if (script === undefined) cpSync(executable, draft)
    else writeFileSync(draft, `#!/bin/sh\nexec ${command.map(word => `'${word}'`).join(' ')} "$@"\n`)
    chmodSync(draft, 0o755)
    renameSync(draft, program)
  }

  const environment = () => ({
    PATH: process.env.PATH ?? '',
    PORT: String(port),
    SLUICE_DATA: data,
    SLUICE_TRUSTED_PROXIES: '127.0.0.1',
    PROVIDER_KEY: 'a-key-of-the-provider',
  })

  const sluice = (...args: string[]) =>
    new Promise<Ended>(resolve => {
      execFile(program, args, { cwd: home, env: environment() }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      )
    })

  async function start(more: Readonly<Record<string, string>> = {}): Promise<void> {
    gateway = spawn(program, ['start'], {
      cwd: home,
      env: { ...environment(), ...more },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    await until('the gateway to be ready', async () => {
      assert.equal(gateway.exitCode, null, 'the gateway exited')
      const response = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined)
      return response?.status === 200 ? true : undefined
    })
  }

  async function stop(): Promise<void> {
    const ended = new Promise<number | null>(resolve => gateway.once('exit', resolve))
    gateway.kill('SIGTERM')
    assert.equal(await ended, 0)
  }

  /** Sends a chat through the proxy, over TLS. */
  const chat = (model: string) =>
    new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const outgoing = request(
        {
          port: proxy.port,
          host: '127.0.0.1',
          servername: 'localhost',
          ca: TEST_CERTIFICATE,
          method: 'POST',
          path: '/v1/chat/completions',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        },
        async response => {
          let text = ''
          for await (const chunk of response) text += chunk
          resolve({ status: response.statusCode, text })
        },
      )
      outgoing.on('error', reject)
      outgoing.end(JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] }))
    })

  const configuration = (models: string) => `version: 1
channels:
  - name: provider
    type: 8
    base_url: ${simulator.url}
    key: env:PROVIDER_KEY
    models: [${models}]
users:
  - {username: ann, password: a-long-password, quota: 5000000}
tokens:
  - {name: app, username: ann, unlimited_quota: true}
`

  before(async () => {
    simulator = await startSimulator({})
    port = await freePort()
  })
  after(async () => {
    if (gateway?.exitCode === null) gateway.kill('SIGKILL')
    await proxy?.close()
    await simulator?.close()
  })

  it('installs the program, and asks the doctor before the first start', async () => {
    install()
    const { code, stdout } = await sluice('doctor')
    assert.equal(code, 0, stdout)
    assert.ok(!existsSync(data))
  })

  it('starts it, with nginx in front', async () => {
    await start()
    masterSecret = readFileSync(join(data, 'secret'), 'utf8').trim()
    assert.equal(statSync(join(data, 'secret')).mode & 0o777, 0o600)
    proxy = await startExampleProxy('nginx', port)
  })

  it('applies a configuration from a file, after a look at the plan', async () => {
    writeFileSync(file, configuration('gpt-4o'))
    assert.equal((await sluice('apply', '-f', file, '--dry-run')).code, 2)
    const applied = await sluice('apply', '-f', file, '--secrets-out', secretsFile)
    assert.equal(applied.code, 0, applied.stderr)
    assert.equal((await sluice('apply', '-f', file, '--dry-run')).code, 0)
    assert.equal(statSync(secretsFile).mode & 0o777, 0o600)
    const { secrets } = JSON.parse(readFileSync(secretsFile, 'utf8')) as Secrets
    const token = secrets.find(({ name }) => name === 'app')
    key = Object.values(token ?? {}).find(value => value.startsWith('sk-')) ?? ''
    const answer = await chat('gpt-4o')
    assert.equal(answer.status, 200, answer.text)
  })

  it('rolls a bad change back', async () => {
    const revisions = await sluice('config', 'log', '--json')
    assert.equal(revisions.code, 0, revisions.stderr)
    const [, good] = /"(?:revision|number|n|id)":(\d+)/.exec(revisions.stdout) ?? []
    writeFileSync(file, configuration('gpt-4o-mini'))
    assert.equal((await sluice('apply', '-f', file)).code, 0)
    assert.equal((await chat('gpt-4o')).status, 404)
    const rolledBack = await sluice('config', 'rollback', String(good), '--reason', 'the wrong model')
    assert.equal(rolledBack.code, 0, rolledBack.stderr)
    assert.equal((await chat('gpt-4o')).status, 200)
  })

  it('upgrades the program', async () => {
    // A running gateway keeps its file.
    install()
    assert.equal((await chat('gpt-4o')).status, 200)
    await stop()
    await start()
    const answer = await chat('gpt-4o')
    assert.equal(answer.status, 200, answer.text)
    assert.equal((await sluice('verify')).code, 0)
  })

  it('backs up while it runs, loses the data, and restores it', async () => {
    const copying = await sluice('backup', backup)
    assert.equal(copying.code, 0, copying.stderr)
    gateway.kill('SIGKILL')
    await until('the gateway to end', () => (gateway.signalCode === null ? undefined : true))
    renameSync(data, join(home, 'lost'))
    const restored = await sluice('restore', backup)
    assert.equal(restored.code, 0, restored.stderr)
    writeFileSync(join(data, 'secret'), `${masterSecret}\n`, { mode: 0o600 })
    await start()
    const answer = await chat('gpt-4o')
    assert.equal(answer.status, 200, answer.text)
    const examined = await sluice('doctor')
    assert.equal(examined.code, 0, examined.stdout)
    await stop()
  })
})
