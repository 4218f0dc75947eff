import { describeMachine, describeOthers } from './machine.ts'
import { type Options, readOptions, UsageError } from './options.ts'

/** Benchmarks of this machine, one table each. `npm run bench` runs all; a name runs one. */
const BENCHES = {
  relay: async options => (await import('./relay.ts')).benchRelay(options),
  profile: async options => (await import('./profile.ts')).benchProfile(options),
  media: async options => (await import('./media.ts')).benchMedia(options),
  apply: async options => (await import('./apply.ts')).benchApply(options),
  growth: async options => (await import('./growth.ts')).benchGrowth(options),
  failover: async options => (await import('./failover.ts')).benchFailover(options),
  'slow-readers': async options => (await import('./slow-readers.ts')).benchSlowReaders(options),
  rejections: async options => (await import('./rejections.ts')).benchRejections(options),
  hostile: async options => (await import('./hostile.ts')).benchHostile(options),
  translate: async options => (await import('./translate.ts')).benchTranslate(options),
  fleet: async options => (await import('./fleet.ts')).benchFleet(options),
  lists: async options => (await import('./lists.ts')).benchLists(options),
} as const satisfies Record<string, (options: Options) => Promise<void>>

const EXIT_USAGE = 64
const MOST_MS = 30 * 60_000

function chosen() {
  if (process.platform !== 'linux') throw new UsageError('the benches read /proc, which only Linux has')
  const { names, options } = readOptions()
  const all = Object.keys(BENCHES)
  const unknown = names.find(name => !all.includes(name))
  if (unknown) throw new UsageError(`there is no bench "${unknown}"; there are: ${all.join(', ')}`)
  return { names: (names.length > 0 ? names : all) as (keyof typeof BENCHES)[], options }
}

try {
  const { names, options } = chosen()
  setTimeout(() => {
    console.error(`a bench took more than ${MOST_MS / 60_000} minutes and was stopped`)
    process.exit(1)
  }, MOST_MS).unref()
  console.log(describeMachine())
  const others = await describeOthers()
  if (others) console.log(others)
  for (const name of names) {
    console.log('')
    await BENCHES[name](options)
  }
} catch (error) {
  const isUsage =
    error instanceof UsageError || (error as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS')
  console.error(isUsage && error instanceof Error ? error.message : error)
  process.exit(isUsage ? EXIT_USAGE : 1)
}
process.exit(0)
