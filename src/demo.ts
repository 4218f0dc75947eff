import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export function createDemo(env: Readonly<Record<string, string | undefined>>) {
  const isOwn = !env.SLUICE_DATA
  const dataDir = env.SLUICE_DATA ?? mkdtempSync(join(tmpdir(), 'sluice-demo-'))
  return {
    dataDir,
    async furnish(_: unknown) {},
    async close(): Promise<void> {
      if (isOwn) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
