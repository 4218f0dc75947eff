import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { SettingError } from '../config.ts'
import { startDemoPostgres } from './postgres.ts'

type Env = Readonly<Record<string, string | undefined>>

type FleetDemo = {
  /** All nodes together. */
  readonly nodes: number
  readonly env: Env
  /** Runs the first node in this process, with this environment, until a signal stops it. */
  runFirst(env: Env, others: OtherNodesOfDemo): Promise<number>
  print(line: string): void
}

/** The further nodes of a demo. */
export type OtherNodesOfDemo = {
  /** Called when the first node is ready, because it creates the tables and the user root. */
  start(): Promise<void>
  stop(): Promise<void>
}

const READY = 'Sluice is ready.'
const READY_TIMEOUT_MS = 60_000

/** Resolves to the address that the node reports when it is ready. */
function untilReady(node: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const late = () =>
      reject(new Error(`a node of the demo was not ready after ${READY_TIMEOUT_MS / 1000} s`))
    const timeout = setTimeout(late, READY_TIMEOUT_MS).unref()
    node.once('exit', code => reject(new Error(`a node of the demo exited with code ${code}`)))
    if (!node.stdout) return
    createInterface(node.stdout).on('line', line => {
      if (!line.includes(READY)) return
      clearTimeout(timeout)
      resolve((JSON.parse(line) as { address: string }).address)
    })
  })
}

/** Several nodes on this machine that share a PostgreSQL; everything is deleted when the demo is stopped. */
export async function serveDemoFleet({ nodes, env, runFirst, print }: FleetDemo): Promise<number> {
  if (env.DATABASE_URL)
    throw new SettingError('DATABASE_URL', 'must not be set with --nodes: the demo starts its own PostgreSQL')
  const postgres = await startDemoPostgres(randomBytes(18).toString('hex'))
  const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-nodes-'))
  const running = new Set<ChildProcess>()
  process.once('exit', () => {
    for (const node of running) node.kill('SIGKILL')
    postgres.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const shared = {
    ...env,
    DATABASE_URL: postgres.url,
    SLUICE_SECRET: randomBytes(32).toString('hex'),
    SLUICE_DRAIN_DELAY_S: '0',
  }

  async function startNode(number: number): Promise<string> {
    const words = [...process.execArgv, process.argv[1] as string, 'start', '--port', '0', '--json']
    const node = spawn(process.execPath, words, {
      env: { ...shared, SLUICE_DATA: join(folder, `node-${number}`), SLUICE_LOG: 'info' },
      stdio: ['ignore', 'pipe', 'inherit'],
      // Ctrl-C in a terminal reaches this process only, which stops the nodes in order.
      detached: true,
    })
    running.add(node)
    node.once('exit', () => running.delete(node))
    const address = await untilReady(node)
    return `  Node ${number}     ${address}/   (process ${node.pid})`
  }

  const code = await runFirst(shared, {
    async start() {
      const lines: string[] = []
      for (let number = 2; number <= nodes; number++) lines.push(await startNode(number))
      print(
        [
          `  ${nodes} nodes share one PostgreSQL. The node above is the first; the others are:`,
          '',
          ...lines,
          '',
          '  All have the same users, tokens and channels. Nodes in the console shows their state: end one with kill, and look.',
          '',
        ].join('\n'),
      )
    },
    async stop() {
      await Promise.all(
        [...running].map(node => {
          const ended = once(node, 'exit')
          node.kill('SIGTERM')
          return ended
        }),
      )
    },
  })
  await postgres.stop()
  return code
}
