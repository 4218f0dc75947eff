import { parseArgs } from 'node:util'
import { benchLists } from './lists.ts'
import { benchRelay } from './relay.ts'

/** Figures of this machine, one table a subject. `npm run bench` runs all; a name runs one. */
const BENCHES = { lists: benchLists, relay: benchRelay } as const satisfies Record<
  string,
  () => Promise<void>
>

const { positionals } = parseArgs({ allowPositionals: true })
const names = positionals.length > 0 ? positionals : Object.keys(BENCHES)

for (const name of names) {
  const bench = BENCHES[name as keyof typeof BENCHES]
  if (!bench) {
    console.error(`there is no bench "${name}"; there are: ${Object.keys(BENCHES).join(', ')}`)
    process.exit(64)
  }
  await bench()
}
process.exit(0)
