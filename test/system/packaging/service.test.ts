import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { newDirectory } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const unit = read('packaging/systemd/sluice.service')

const skip = skipWithout(import.meta.filename, 'systemd-analyze')

/** Runs systemd-analyze on the unit, with a program that every machine has. */
function analyze(...args: string[]) {
  const file = join(newDirectory(), 'sluice.service')
  writeFileSync(file, unit.replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true'))
  return spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' })
}

describe('the systemd unit', () => {
  it('is valid', { skip }, () => {
    const { status, stdout, stderr } = analyze('verify')
    assert.deepEqual([status, stdout, stderr], [0, '', ''])
  })

  it('has an exposure level of at most 3', { skip }, () => {
    const { status, stdout, stderr } = analyze('security', '--offline=true', '--threshold=30', '--no-pager')
    assert.match(stdout, /Overall exposure level for sluice\.service: [0-2]\.\d/, stderr)
    assert.equal(status, 0)
  })

  it('waits longer for the end than the gateway waits for its requests', () => {
    const [, timeout] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? []
    const [, drain] = /SLUICE_DRAIN_S` \| `(\d+)`/.exec(read('docs/operating/settings.md')) ?? []
    assert.ok(Number(timeout) > Number(drain), `${timeout} s, ${drain} s`)
  })

  it('does not restart after wrong usage, damaged data or an invalid setting', () => {
    assert.match(unit, /^RestartPreventExitStatus=64 65 78$/m)
  })
})

describe('the page about proxies', () => {
  for (const file of ['nginx.conf', 'haproxy.cfg', 'Caddyfile'])
    it(`shows packaging/proxy/${file}`, () => {
      assert.ok(read('docs/operating/proxy.md').includes(read(`packaging/proxy/${file}`)))
    })
})
