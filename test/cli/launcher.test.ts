import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { version } from '../../src/host/version.ts'

const launcher = join(import.meta.dirname, '../../sluice')
const elsewhere = mkdtempSync(join(tmpdir(), 'sluice-launcher-'))

/** Runs a launcher from a directory that is not the checkout. */
const launch = (path: string, ...args: string[]) =>
  new Promise<{ code: unknown; stdout: string; stderr: string }>(resolve => {
    execFile(path, args, { cwd: elsewhere }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    )
  })

describe('./sluice', () => {
  after(() => rmSync(elsewhere, { recursive: true, force: true }))

  it('runs the program from any working directory', async () => {
    assert.deepEqual(await launch(launcher, 'version'), { code: 0, stdout: `${version}\n`, stderr: '' })
  })

  it('runs the program through a symbolic link', async () => {
    const link = join(elsewhere, 'link')
    symlinkSync(launcher, link)
    assert.equal((await launch(link, 'version')).stdout, `${version}\n`)
  })

  it('passes arguments unchanged and returns the exit code', async () => {
    const { code, stdout, stderr } = await launch(launcher, 'two words', '*')
    assert.deepEqual([code, stdout], [64, ''])
    assert.match(stderr, /"two words \*"/)
  })

  it('names `npm ci` if Node.js is not installed', async () => {
    const copy = join(elsewhere, 'sluice')
    copyFileSync(launcher, copy)
    const { code, stdout, stderr } = await launch(copy, 'version')
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^sluice: [^\n]*npm ci[^\n]*\n$/)
  })
})
