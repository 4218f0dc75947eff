import { parseArgs } from 'node:util'
import { type SimulatorOptions, startSimulator } from './server.ts'

const HELP = `usage: npm run simulator -- [options]

Stands in for AI model providers: answers as they do, thinks nothing, counts honestly.

  --port N           port to listen on; 0, the default, takes any free one
  --host ADDRESS     address to listen on (default 127.0.0.1)
  --latency-ms N     wait before the first byte of an answer (default 0, at most 60000)
  --pace-ms N        wait between two chunks of a stream (default 0, at most 60000)
  --count-file PATH  append a JSON line for every billed request
  --with-parent      end when standard input does: with whoever started it, however that ends
  --help             this text
`

const EXIT_USAGE = 2

function readFlags() {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: '0' },
      host: { type: 'string', default: '127.0.0.1' },
      'latency-ms': { type: 'string', default: '0' },
      'pace-ms': { type: 'string', default: '0' },
      'count-file': { type: 'string' },
      'with-parent': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const countFile = values['count-file']
  const options: SimulatorOptions = {
    port: numberOf('port', values.port, 65_535),
    host: values.host,
    latencyMs: numberOf('latency-ms', values['latency-ms'], 60_000),
    paceMs: numberOf('pace-ms', values['pace-ms'], 60_000),
    onFailure: error => console.error(error),
    ...(countFile === undefined ? {} : { countFile }),
  }
  return { wantsHelp: values.help, endsWithParent: values['with-parent'], options }
}

function numberOf(flag: string, text: string, most: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value <= most) return value
  throw new Error(`--${flag} must be a whole number from 0 to ${most}, not '${text}'`)
}

function flagsOrUsage() {
  try {
    return readFlags()
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${HELP}`)
    process.exit(EXIT_USAGE)
  }
}

async function run(options: SimulatorOptions, endsWithParent: boolean): Promise<void> {
  const simulator = await startSimulator(options)
  const stop = () => {
    // An open standard input would keep the process alive after the server is closed.
    if (endsWithParent) process.stdin.destroy()
    void simulator.close()
  }
  if (endsWithParent) process.stdin.resume().once('close', stop)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  console.log(`simulator listening on ${simulator.url}`)
}

const { wantsHelp, endsWithParent, options } = flagsOrUsage()
if (wantsHelp) {
  process.stdout.write(HELP)
} else {
  await run(options, endsWithParent).catch((error: Error) => {
    console.error(`the simulator cannot start: ${error.message}`)
    process.exitCode = 1
  })
}
