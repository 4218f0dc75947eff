import { spawn } from 'node:child_process'
import { once } from 'node:events'

const CHECKS = ['check:types', 'check:lint']

/** Checks types and lint at the same time, and prints what they report. The architecture is one of the tests. */
export async function passesChecks(): Promise<boolean> {
  const codes = await Promise.all(
    CHECKS.map(async script => {
      const child = spawn('npm', ['run', '--silent', script], { stdio: ['ignore', 'pipe', 'pipe'] })
      const output: Buffer[] = []
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk: Buffer) => output.push(chunk))
      const [code] = await once(child, 'close')
      if (code !== 0) process.stdout.write(Buffer.concat(output))
      return code
    }),
  )
  return codes.every(code => code === 0)
}
