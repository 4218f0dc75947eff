import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Operations } from '../../cli/operations.ts'
import { programFile } from '../../host/program-file.ts'
import { createBooks } from '../../store/books/books.ts'
import type { Store } from '../../store/engine/store.ts'
import { decideStatus } from '../../store/records/channel-status.ts'
import { writeHistory } from './history.ts'

const CHANNEL = 'Simulated provider'
const SECOND = 'Simulated provider, second'
const BROKEN = 'Simulated provider, broken'
const PEOPLE = ['ana', 'ben'] as const
const PEOPLES_QUOTA = 50_000_000
const TOKEN = 'demo'
/** Well-known models that have a price, so that the demo shows real figures. */
const MODELS = ['gpt-4o-mini', 'gpt-4o', 'claude-sonnet-4-5', 'gemini-2.5-flash', 'deepseek-chat']
/** Models for operations other than chat. */
const OTHER_MODELS = [
  'text-embedding-3-small',
  'gpt-4o-mini-tts',
  'whisper-1',
  'omni-moderation-latest',
  'gpt-image-1',
  'sora-2',
]
const OPENAI_TYPE = 1

type SetUpOptions = {
  readonly address: string
  readonly operations: Operations
  readonly rootPassword: string | undefined
  readonly store: Store
  announce(targets: readonly string[]): Promise<unknown>
  print(line: string): void
}

/** Starts the simulator as a child process and waits for the URL that it prints. */
function startSimulator(): Promise<{ url: string; child: ChildProcess }> {
  const file = programFile('../simulator/main').pathname
  // The child ends when its standard input closes, which also happens when this process is killed.
  const child = spawn(process.execPath, [file, '--with-parent'], { stdio: ['pipe', 'pipe', 'inherit'] })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => reject(new Error(`the simulated provider exited with code ${code}`)))
    child.stdout?.on('data', (chunk: Buffer) => {
      const url = /http:\/\/\S+/.exec(chunk.toString())?.[0]
      if (url) resolve({ url, child })
    })
  })
}

/** A client of the management API, which the demo is set up with. */
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

async function createChannel(call: Client, name: string, baseUrl: string, priority: number) {
  const id = await findNamed(call, '/api/channel/', name)
  if (id !== undefined) {
    await call('PUT', '/api/channel/', { id, base_url: baseUrl })
    return { id, isNew: false }
  }
  const channel = {
    name,
    type: OPENAI_TYPE,
    key: 'simulated-key',
    base_url: baseUrl,
    models: [...MODELS, ...OTHER_MODELS],
    priority,
  }
  const created = await call<{ id: number }>('POST', '/api/channel/', { mode: 'single', channel })
  return { id: created.id, isNew: true }
}

type Token = { readonly id: number; readonly key: string }

async function createToken(call: Client): Promise<Token> {
  const id = await findNamed(call, '/api/token/', TOKEN)
  const body = { name: TOKEN, unlimited_quota: true }
  if (id === undefined) return call('POST', '/api/token/', body)
  return { id, ...(await call<{ key: string }>('POST', `/api/token/${id}/key`)) }
}

/** A day of requests by several users, a failover channel and an auto-disabled one. */
async function createHistory(
  { address, operations, store, announce }: Omit<SetUpOptions, 'rootPassword' | 'print'>,
  call: Client,
  { first, demoToken }: { readonly first: number; readonly demoToken: Token },
): Promise<void> {
  const second = await createChannel(call, SECOND, await baseUrlOf(call, first), -1)
  const broken = await createChannel(call, BROKEN, 'http://127.0.0.1:9', -2)
  const self = await call<{ id: number }>('GET', '/api/user/self')
  const spenders = [{ userId: self.id, tokenId: demoToken.id, tokenName: TOKEN, models: MODELS.slice(0, 2) }]
  for (const [index, username] of PEOPLE.entries()) {
    const password = randomBytes(18).toString('base64url')
    const { id } = await call<{ id: number }>('POST', '/api/user/', {
      username,
      password,
      quota: PEOPLES_QUOTA,
    })
    const { token } = await operations.accessToken({ username, name: SET_UP })
    const callAsUser = createClient(address, token)
    const created = await callAsUser<Token>('POST', '/api/token/', {
      name: `${username}'s app`,
      remain_quota: PEOPLES_QUOTA / 2,
    })
    await endSetUp(callAsUser)
    spenders.push({
      userId: id,
      tokenId: created.id,
      tokenName: `${username}'s app`,
      models: MODELS.slice(index),
    })
  }
  const nowMs = Date.now()
  const channels = { first, second: second.id, broken: broken.id }
  await writeHistory(createBooks(store.db, store.engine), { spenders, channels, nowMs })
  const reason = 'The provider could not be reached repeatedly.'
  await decideStatus(store.db, {
    channelId: broken.id,
    status: 3,
    reason,
    time: Math.floor(nowMs / 1000),
  })
  await announce([`channel:${broken.id}`])
}

/** A running video job. */
async function createVideo(address: string, key: string): Promise<void> {
  const response = await fetch(`${address}/v1/videos`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'sora-2',
      prompt: 'A river at dawn, seen from a small boat.',
      seconds: '4',
    }),
  })
  if (!response.ok) throw new Error(`the demo could not create a video (${await response.text()})`)
}

const baseUrlOf = async (call: Client, id: number) =>
  (await call<{ base_url: string }>('GET', `/api/channel/${id}`)).base_url

const SET_UP = 'demo set-up'

/** Deletes the access tokens of the set-up. */
async function endSetUp(call: Client): Promise<void> {
  const { items } = await call<Page>('GET', '/api/user/access_token/?page_size=500')
  for (const { id, name } of items) if (name === SET_UP) await call('DELETE', `/api/user/access_token/${id}`)
}

/** A gateway to try: a simulated provider, a channel to it and a token, in a directory that is deleted with the demo. */
export function createDemo(chosenDataDir: string | undefined) {
  const dataDir = chosenDataDir ?? mkdtempSync(join(tmpdir(), 'sluice-demo-'))
  let simulator: ChildProcess | undefined

  return {
    dataDir,
    async setUp({ rootPassword, print, ...gateway }: SetUpOptions): Promise<void> {
      const { address, operations } = gateway
      const { url, child } = await startSimulator()
      simulator = child
      const { token } = await operations.accessToken({ username: 'root', name: SET_UP })
      const call = createClient(address, token)
      const first = await createChannel(call, CHANNEL, url, 0)
      const demoToken = await createToken(call)
      const { key } = demoToken
      if (first.isNew) {
        await createHistory(gateway, call, { first: first.id, demoToken })
        await createVideo(address, key)
      }
      await endSetUp(call)

      const question = `{"model":"${MODELS[0]}","messages":[{"role":"user","content":"Hello!"}]}`
      print(
        [
          '',
          '  Sluice is running with a simulated provider.',
          '',
          `  Console    ${address}/`,
          `  API        ${address}/docs`,
          `  User       root`,
          `  Password   ${rootPassword ?? '(unchanged; ./sluice admin reset-password sets a new one)'}`,
          `  Token      ${key}`,
          '',
          '  Send a request:',
          '',
          `  curl ${address}/v1/chat/completions \\`,
          `    -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\`,
          `    -d '${question}'`,
          '',
          chosenDataDir === undefined
            ? '  All data is in a temporary directory, which is deleted when you stop the demo (Ctrl-C).'
            : `  All data is in ${dataDir}. Stop the demo with Ctrl-C.`,
          '',
        ].join('\n'),
      )
    },
    /** Synchronous, because it is also called when the process exits. */
    close(): void {
      simulator?.kill('SIGTERM')
      if (chosenDataDir === undefined) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
