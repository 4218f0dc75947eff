import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runHere } from './command.ts'
import { type Env, newDirectory, run } from './process.ts'

/** A directory with files, and commands that run in it. */
export function commandFolder(env: Env) {
  const cwd = newDirectory()
  return {
    file: (name: string) => join(cwd, name),
    write(name: string, text: string): void {
      mkdirSync(join(cwd, name, '..'), { recursive: true })
      writeFileSync(join(cwd, name), text)
    },
    sluice: (...words: string[]) => runHere(words, { cwd, env }),
    sluiceProcess: (...words: string[]) => run(words, { cwd, env }),
  }
}
