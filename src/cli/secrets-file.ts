import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import type { NewSecret } from '../domain/config-change.ts'
import { CommandError } from './command.ts'

const OWNER_ONLY = 0o600

type Content = { readonly secrets: readonly NewSecret[] }

const isSame = (a: NewSecret, b: NewSecret) =>
  a.kind === b.kind && a.name === b.name && a.username === b.username

function read(file: string): readonly NewSecret[] {
  if (!existsSync(file)) return []
  const refuse = (): never => {
    throw new CommandError(`${file} exists and was not written by sluice apply; choose another file`)
  }
  if (!statSync(file).isFile()) refuse()
  try {
    const { secrets } = JSON.parse(readFileSync(file, 'utf8')) as Content
    return Array.isArray(secrets) ? secrets : refuse()
  } catch {
    // Not JSON: it belongs to another program.
    return refuse()
  }
}

/**
 * The file that receives generated values. It is tried before the configuration is applied, so that no value is lost.
 * Values of earlier runs are kept.
 */
export function openSecretsFile(file: string) {
  const earlier = read(file)
  const draft = `${file}.${process.pid}.tmp`
  try {
    writeFileSync(draft, '', { mode: OWNER_ONLY, flag: 'wx' })
  } catch (error) {
    throw new CommandError(`${file} cannot be written: ${(error as Error).message}`)
  }
  return {
    write(secrets: readonly NewSecret[]): void {
      if (secrets.length === 0) return
      const others = earlier.filter(old => !secrets.some(secret => isSame(old, secret)))
      const content: Content = { secrets: [...others, ...secrets] }
      writeFileSync(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: OWNER_ONLY })
      renameSync(draft, file)
    },
    close: () => rmSync(draft, { force: true }),
  }
}
