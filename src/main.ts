#!/usr/bin/env node
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import type { OtherNodesOfDemo } from './app/demo/fleet.ts'
import { configOf, describeFailure, type ProgramEnv, runProgram } from './app/program.ts'
import type { StartOptions } from './cli/cli.ts'
import { EXIT } from './cli/command-line.ts'
import { makeDirectory } from './host/directory.ts'
import { returnMemory } from './host/memory-return.ts'
import { WORKER_VARIABLE } from './workers/messages.ts'

// Libraries create databases, journals and sockets with the default mode, so the umask restricts them to the owner.
process.umask(0o077)

/** A reader that stops early (`sluice verify | head`) does not change the exit code. */
function onOutputError(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') return
  printError(`sluice: stdout: ${error.message}`)
  process.exit(EXIT.failed)
}

function print(line: string): void {
  // Threads add `error` listeners to stdout too, so this one is looked for.
  if (!process.stdout.listeners('error').includes(onOutputError)) process.stdout.on('error', onOutputError)
  process.stdout.write(`${line}\n`)
}
const printError = (line: string) => void process.stderr.write(`${line}\n`)

/**
 * Caches compiled code in the data directory, where no other user can write. The next start is faster, and threads and
 * workers, which read NODE_COMPILE_CACHE, need no compiler in memory. A value that the operator has set is kept, unless it is empty: that
 * would mean the working directory.
 */
function cacheCompiledCode(dataDir: string): void {
  try {
    makeDirectory(dataDir)
  } catch {
    // The code that needs the directory reports what is wrong with it.
    return
  }
  process.env.NODE_COMPILE_CACHE ||= join(dataDir, 'compiled')
  enableCompileCache(process.env.NODE_COMPILE_CACHE)
}

/** Three weeks, which disables the memory reducer in practice. */
const IDLE_COLLECTION_MS = 2_000_000_000

/** Before V8's memory reducer runs for the first time. */
const TUNED_AFTER_MS = 4_000

/**
 * Socket buffers are outside V8's heap. By default V8 marks the whole heap after every 64 MiB of them, which was half of the
 * CPU time of large transfers. Accounted in the global limit, they are freed with the young generation.
 *
 * When a process is idle for some seconds, V8 runs its memory reducer, which also drops unused object shapes and the
 * optimized code that depends on them: after each pause the gateway was as slow as after its start.
 *
 * When objects of a function survive for some collections, V8 makes all later ones in the old generation. After some streams, that was most
 * objects of all requests, which live for milliseconds: they filled 50 MiB before they were collected.
 *
 * The compiled code in the executable of Node.js is valid only for the default options of V8. So the options are changed after the start,
 * which makes the start 20 ms faster.
 */
const tuneV8 = () => {
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  setFlagsFromString(`--memory-reducer-delay-ms=${IDLE_COLLECTION_MS}`)
  setFlagsFromString('--no-allocation-site-pretenuring')
}

function afterStart(): void {
  tuneV8()
  returnMemory()
}

/** Other processes do not load the module for workers. */
const isWorker = async () =>
  process.env[WORKER_VARIABLE] !== undefined && (await import('node:cluster')).default.isWorker

// The gateway is imported on demand: help texts and setting errors must not wait for it. What is imported before the cache of
// compiled code is known would be compiled at every start.
async function start(options: StartOptions): Promise<number> {
  if (options.nodes !== undefined && !(await isWorker())) {
    const { serveDemoFleet } = await import('./app/demo/fleet.ts')
    const runFirst = (env: ProgramEnv, others: OtherNodesOfDemo) => startNode(options, env, others)
    return serveDemoFleet({ nodes: options.nodes, env: process.env, runFirst, print })
  }
  return startNode(options, process.env)
}

async function startNode(options: StartOptions, env: ProgramEnv, others?: OtherNodesOfDemo): Promise<number> {
  const config = configOf(options, env)
  // A demo in a temporary directory leaves nothing in the default data directory.
  const isTemporary = options.demo && !(options.data ?? env.SLUICE_DATA)
  if (!isTemporary) cacheCompiledCode(config.dataDir)
  setTimeout(afterStart, TUNED_AFTER_MS).unref()
  if (await isWorker()) {
    const { serveAsWorker } = await import('./app/worker.ts')
    return serveAsWorker(config)
  }
  const { serve } = await import('./app/serve.ts')
  return serve({ settings: config, options, env, print, others })
}

try {
  process.exitCode = await runProgram(process.argv.slice(2), { env: process.env, start, print, printError })
} catch (error) {
  const { code, message } = describeFailure(error)
  printError(`sluice: ${message}`)
  // Threads and servers that were already started must not keep the process alive.
  process.exit(code)
}
