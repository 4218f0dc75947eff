import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { version } from '../../src/host/version.ts'

const root = join(import.meta.dirname, '../..')
const launcher = join(root, 'sluice')
const elsewhere = mkdtempSync(join(tmpdir(), 'sluice-launcher-'))

/** Runs a launcher from a directory that is not the checkout. */
const launch = (path: string, env: NodeJS.ProcessEnv, ...args: string[]) =>
  new Promise<{ code: unknown; stdout: string; stderr: string }>(resolve => {
    execFile(path, args, { cwd: elsewhere, env }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    )
  })

describe('./sluice', () => {
  after(() => rmSync(elsewhere, { recursive: true, force: true }))

  it('runs the program from any working directory', async () => {
    assert.deepEqual(await launch(launcher, process.env, 'version'), {
      code: 0,
      stdout: `${version}\n`,
      stderr: '',
    })
  })

  it('runs the program through a symbolic link', async () => {
    const link = join(elsewhere, 'link')
    symlinkSync(launcher, link)
    assert.equal((await launch(link, process.env, 'version')).stdout, `${version}\n`)
  })

  it('passes arguments unchanged and returns the exit code', async () => {
    const { code, stdout, stderr } = await launch(launcher, process.env, 'two words', '*')
    assert.deepEqual([code, stdout], [64, ''])
    assert.match(stderr, /"two words \*"/)
  })

  it('names what to install on a machine without Node.js', async () => {
    const copy = join(elsewhere, 'checkout')
    for (const path of ['sluice', 'packaging/checkout/run']) cpSync(join(root, path), join(copy, path))
    const commands = join(elsewhere, 'commands')
    mkdirSync(commands)
    for (const name of ['dirname', 'readlink']) {
      const path = execFileSync('sh', ['-c', 'command -v "$1"', 'sh', name], { encoding: 'utf8' }).trim()
      symlinkSync(path, join(commands, name))
    }
    const { code, stdout, stderr } = await launch(join(copy, 'sluice'), { PATH: commands }, 'version')
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^sluice: Install Node\.js 20 or newer [^\n]*\n$/)
  })
})
