import { chmodSync, rmSync } from 'node:fs'
import { createServer, request, type Server } from 'node:http'
import { join, relative } from 'node:path'
import { CommandError } from './command.ts'
import type { Operations } from './operations.ts'

/** A configuration file, or the configuration of another gateway, is sent as one command. */
const MAX_BODY = 16 * 1024 * 1024
/** Without a byte of the gateway for so long, it hangs. */
const TIMEOUT_MS = 600_000
/** How often the gateway sends a space, which JSON ignores, while a command runs. */
const HEARTBEAT_MS = 30_000

/** The shorter of the absolute and the relative path: a socket path has at most about 100 characters. */
export function socketPath(dataDir: string): string {
  const whole = join(dataDir, 'sluice.sock')
  const short = relative(process.cwd(), whole)
  return short.length < whole.length ? short : whole
}

type Name = keyof Operations

export type CommandOutcome = {
  readonly result: unknown
  /** What the operator must know besides the result. */
  readonly warning?: string
}
/** Runs the operation of a command. */
export type RunCommand = (name: Name, input: unknown) => Promise<CommandOutcome>

type Outcome = CommandOutcome | { readonly error: string }

/** What runs the commands. Loaded with the first command. */
export type Commands = { readonly operations: Operations; readonly run: RunCommand }

/**
 * Serves commands over a Unix socket that only the owner of the data directory can open. What runs
 * them is loaded with the first command.
 */
export async function serveControl(dataDir: string, load: () => Promise<Commands>): Promise<Server> {
  const path = socketPath(dataDir)
  // A killed process leaves its socket behind. This process has the lock of the directory, so no other one uses it.
  rmSync(path, { force: true })
  const server = createServer(async (incoming, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const heartbeat = setInterval(() => response.write(' '), HEARTBEAT_MS)
    const outcome = await answer(load, incoming.url ?? '', incoming)
    clearInterval(heartbeat)
    response.end(JSON.stringify(outcome))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  chmodSync(path, 0o600)
  return server
}

async function answer(
  load: () => Promise<Commands>,
  url: string,
  body: AsyncIterable<Buffer>,
): Promise<Outcome> {
  try {
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of body) {
      size += chunk.length
      if (size > MAX_BODY) throw new CommandError('the command is too long')
      chunks.push(chunk)
    }
    const name = url.slice(1)
    const { operations, run } = await load()
    if (!Object.hasOwn(operations, name))
      throw new CommandError(
        `the running gateway does not support the command "${name}"; it may be an older version`,
      )
    return await run(name as Name, JSON.parse(Buffer.concat(chunks).toString('utf8')))
  } catch (error) {
    return { error: (error as Error).message }
  }
}

/** Calls the server that runs on this data directory; undefined if none runs. */
export function callControl(
  dataDir: string,
  name: Name,
  input: unknown,
  timeoutMs = TIMEOUT_MS,
): Promise<CommandOutcome | undefined> {
  return new Promise((resolve, reject) => {
    const call = request({
      socketPath: socketPath(dataDir),
      path: `/${name}`,
      method: 'POST',
      timeout: timeoutMs,
    })
    // Node.js only reports the timeout; destroying the call rejects it.
    call.on('timeout', () =>
      call.destroy(
        new CommandError(
          `the running gateway has not answered for ${timeoutMs / 1000} s. It may hang: see its log, or restart it`,
        ),
      ),
    )
    call.on('error', error => {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT' || code === 'ECONNREFUSED') resolve(undefined)
      else reject(error)
    })
    call.on('response', async response => {
      try {
        const chunks: Buffer[] = []
        for await (const chunk of response) chunks.push(chunk)
        const outcome = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Outcome
        if ('error' in outcome) reject(new CommandError(outcome.error))
        else resolve(outcome)
      } catch (error) {
        reject(error)
      }
    })
    call.end(JSON.stringify(input))
  })
}
