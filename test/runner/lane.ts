import { resolve } from 'node:path'
import { after, beforeEach, describe } from 'node:test'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
// Imported here so that their hooks belong to the process, and not to the first file that imports them.
import '../support/gateway.ts'
import { endProcesses, until } from '../support/process.ts'
import { startCost } from './cost.ts'
import { filesOfLane, LANES_VARIABLE } from './lanes.ts'
import { trackPromises } from './promise-tracking.ts'

/**
 * One of a few processes that share the test files and run them one after another. A process for each file would
 * spend about a second of CPU on loading the program, and would run most of it before it is optimized.
 */

/** Ends a file that hangs. On a slow machine, no other file takes nearly as long. */
const HUNG_MS = 15 * 60_000
/** How long a socket or a timer of a file may keep the process alive after the last test. */
const LINGER_MS = 1_000
/** Servers are closed a moment after the tests that used them. */
const CLOSE_MS = 1_000

const openServers = () => process.getActiveResourcesInfo().filter(kind => kind === 'TCPServerWrap').length

/**
 * Without following promises, node:test does not know the test of an uncaught error, and in a lane a rejection that no test handles
 * would fail nothing: see promise-tracking.ts.
 */
let lastTest = ''
const rejections: string[] = []
process.on('uncaughtExceptionMonitor', error =>
  console.error(`Uncaught while this test ran: ${lastTest}`, error),
)
process.on('unhandledRejection', error => rejections.push(`${lastTest}: ${inspect(error)}`))

// The runner was killed.
process.stdout.on('error', () => process.exit(1))

// A test may wait for a timer that does not keep the process alive, so this one does.
const alive = setInterval(() => {}, HUNG_MS)
for (const file of filesOfLane(process.env[LANES_VARIABLE] ?? ''))
  await describe(file, { timeout: HUNG_MS }, () =>
    trackPromises(async () => {
      beforeEach(({ fullName }) => {
        lastTest = fullName
      })
      const opened = openServers()
      const recordCost = startCost(file)
      await import(pathToFileURL(resolve(file)).href)
      after(async () => {
        await endProcesses()
        const areClosed = () => (openServers() <= opened ? true : undefined)
        await until('closed servers', areClosed, CLOSE_MS).catch(() =>
          console.error(`${file} has left a server open.`),
        )
        recordCost()
        const unhandled = rejections.splice(0)
        if (unhandled.length > 0) throw new Error(`Rejections that no test handled:\n${unhandled.join('\n')}`)
      })
    }),
  )
clearInterval(alive)
setTimeout(() => {
  console.error(`Still open after the last test: ${process.getActiveResourcesInfo().join(', ')}.`)
  process.exit()
}, LINGER_MS).unref()
