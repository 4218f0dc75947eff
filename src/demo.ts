import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Operations } from './cli/operations.ts'
import { programFile } from './store/program-file.ts'

const CHANNEL = 'Simulated provider'
const TOKEN = 'demo'
/** Names that people know and that have a price, so that the demo shows real figures. */
const MODELS = ['gpt-4o-mini', 'gpt-4o', 'claude-sonnet-4-5', 'gemini-2.5-flash', 'deepseek-chat']
const OPENAI_TYPE = 1

type Furnishing = {
  readonly address: string
  readonly operations: Operations
  readonly rootPassword: string | undefined
  print(line: string): void
}

/** Starts the simulator as a process of its own and waits for the address it prints. */
function startSimulator(): Promise<{ url: string; child: ChildProcess }> {
  const file = programFile(import.meta.url, '../simulator/main').pathname
  // Its standard input is ours to close, which also happens when this process is killed.
  const child = spawn(process.execPath, [file, '--with-parent'], { stdio: ['pipe', 'pipe', 'inherit'] })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => reject(new Error(`the simulated provider ended with ${code}`)))
    child.stdout?.on('data', (chunk: Buffer) => {
      const url = /http:\/\/\S+/.exec(chunk.toString())?.[0]
      if (url) resolve({ url, child })
    })
  })
}

/** The demo sets itself up as any client would: over the management API. */
function createClient(address: string, accessToken: string) {
  return async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(`${address}${path}`, {
      method,
      headers: { authorization: `Bearer ${accessToken}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const answer = (await response.json()) as { success: boolean; message: string; data: T }
    if (!answer.success) throw new Error(`the demo could not ${method} ${path}: ${answer.message}`)
    return answer.data
  }
}

type Page = { readonly items: readonly { readonly id: number; readonly name: string }[] }
type Client = ReturnType<typeof createClient>

async function findNamed(call: Client, path: string, name: string): Promise<number | undefined> {
  const { items } = await call<Page>('GET', `${path}search?keyword=${encodeURIComponent(name)}`)
  return items.find(item => item.name === name)?.id
}

async function furnishChannel(call: Client, baseUrl: string): Promise<void> {
  const id = await findNamed(call, '/api/channel/', CHANNEL)
  if (id !== undefined) return void (await call('PUT', '/api/channel/', { id, base_url: baseUrl }))
  const channel = {
    name: CHANNEL,
    type: OPENAI_TYPE,
    key: 'simulated-key',
    base_url: baseUrl,
    models: MODELS,
  }
  await call('POST', '/api/channel/', { mode: 'single', channel })
}

async function furnishToken(call: Client): Promise<string> {
  const id = await findNamed(call, '/api/token/', TOKEN)
  const body = { name: TOKEN, unlimited_quota: true }
  const token = id === undefined ? call('POST', '/api/token/', body) : call('POST', `/api/token/${id}/key`)
  return ((await token) as { key: string }).key
}

/** A gateway to try out: a simulated provider, a channel to it and a token, in a directory that goes with the demo. */
export function createDemo(givenDataDir: string | undefined) {
  const dataDir = givenDataDir ?? mkdtempSync(join(tmpdir(), 'sluice-demo-'))
  let simulator: ChildProcess | undefined

  return {
    dataDir,
    async furnish({ address, operations, rootPassword, print }: Furnishing): Promise<void> {
      const { url, child } = await startSimulator()
      simulator = child
      const { token } = await operations.accessToken({ username: 'root', name: 'demo set-up' })
      const call = createClient(address, token)
      await furnishChannel(call, url)
      const key = await furnishToken(call)
      const { items } = await call<Page>('GET', '/api/user/access_token/?page_size=500')
      for (const { id, name } of items)
        if (name === 'demo set-up') await call('DELETE', `/api/user/access_token/${id}`)

      const question = `{"model":"${MODELS[0]}","messages":[{"role":"user","content":"Hello!"}]}`
      print(
        [
          '',
          '  Sluice is running, with a simulated provider behind it.',
          '',
          `  Console    ${address}/`,
          `  API        ${address}/docs`,
          `  User       root`,
          `  Password   ${rootPassword ?? '(as it was; sluice admin reset-password gives a new one)'}`,
          `  Token      ${key}`,
          '',
          '  Ask it something:',
          '',
          `  curl ${address}/v1/chat/completions \\`,
          `    -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\`,
          `    -d '${question}'`,
          '',
          givenDataDir === undefined
            ? '  Everything lives in a temporary directory and is gone when you stop it (Ctrl-C).'
            : `  Everything lives in ${dataDir}. Stop it with Ctrl-C.`,
          '',
        ].join('\n'),
      )
    },
    /** Also called on the way out of a process that ends at once, so it waits for nothing. */
    close(): void {
      simulator?.kill('SIGTERM')
      if (givenDataDir === undefined) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
