import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { runCli } from '../../src/cli/cli.ts'

async function script(shell: string): Promise<string> {
  const lines: string[] = []
  const fail = () => assert.fail('a script needs nothing')
  const code = await runCli(['completion', shell], {
    version: '1.0.0',
    settingsHelp: () => [],
    start: fail,
    operate: fail,
    restore: fail,
    examine: fail,
    migrate: fail,
    configSchema: fail,
    print: line => void lines.push(line),
    printError: line => void lines.push(line),
  })
  assert.equal(code, 0)
  return `${lines.join('\n')}\n`
}

const isInstalled = (shell: string) => spawnSync(shell, ['-c', 'exit 0']).status === 0
const skipOf = (shell: string) => (isInstalled(shell) ? false : `${shell} is not installed`)

/** Runs a script in a shell and returns the words that it prints. */
function wordsOf(shell: string, code: string): string[] {
  const { stdout, stderr, status } = spawnSync(shell, ['-c', code], { encoding: 'utf8' })
  assert.equal(stderr, '')
  assert.equal(status, 0)
  return stdout.split('\n').filter(word => word !== '')
}

describe('completion in bash', { skip: skipOf('bash') }, () => {
  /** What bash offers for the last of these words. */
  const offers = async (...words: string[]) =>
    wordsOf(
      'bash',
      `${await script('bash')}
COMP_WORDS=(${['sluice', ...words].map(word => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}
_sluice; printf '%s\\n' "\${COMPREPLY[@]}"`,
    )

  it('offers commands, the second word of a command, and its options', async () => {
    assert.deepEqual(await offers('st'), ['start'])
    assert.ok((await offers('')).includes('doctor'))
    assert.deepEqual(await offers('admin', 're'), ['reset-password'])
    assert.deepEqual(await offers('start', '--d'), ['--demo', '--data'])
    assert.deepEqual(await offers('admin', 'access-token', '--n'), ['--name'])
  })

  it('leaves arguments to the completion of file names', async () => {
    assert.deepEqual(await offers('backup', 'fi'), [])
  })
})

describe('completion in zsh', { skip: skipOf('zsh') }, () => {
  it('is a script that zsh loads', async () => {
    const loaded = `autoload -Uz compinit; compinit -D; ${await script('zsh')}\nprint $_comps[sluice]`
    assert.deepEqual(wordsOf('zsh', loaded), ['_sluice'])
  })
})

describe('completion in fish', { skip: skipOf('fish') }, () => {
  const offers = async (line: string) => {
    const code = `${await script('fish')}\ncomplete -C '${line}'`
    return wordsOf('fish', code).map(offer => offer.split('\t')[0])
  }

  it('offers commands, the second word of a command, and its options', async () => {
    assert.deepEqual(await offers('sluice st'), ['start'])
    assert.deepEqual(await offers('sluice admin re'), ['reset-password'])
    assert.deepEqual(await offers('sluice start --d'), ['--data', '--demo'])
    assert.deepEqual(await offers('sluice admin access-token --n'), ['--name'])
  })
})
