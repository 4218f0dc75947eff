import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, type Stats, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { scrub } from '../../src/app/log.ts'
import { openStore } from '../../src/store/engine/store.ts'
import { type Asking, type EngineName, oneEngine, type Reply } from '../support/gateway.ts'
import { createDatabase } from '../support/postgres.ts'
import {
  type Env,
  logLines,
  newDirectory,
  run,
  type Server,
  settingsOf,
  startServer,
} from '../support/process.ts'
import { allRows } from '../support/tables.ts'

/** A value that must not appear anywhere except where it is shown on purpose. */
type Canary = string

const random = (length: number) => randomBytes(length).toString('hex').slice(0, length)
const canary = (shape: string): Canary => `${shape}${random(32)}`

/** A leak may be encoded, escaped, or partial. */
function formsOf(secret: Canary): readonly string[] {
  const bytes = Buffer.from(secret)
  const half = Math.max(16, Math.floor(secret.length / 2))
  return [
    ...new Set([
      secret,
      encodeURIComponent(secret),
      JSON.stringify(secret).slice(1, -1),
      bytes.toString('base64').replace(/=+$/, ''),
      bytes.toString('base64url'),
      bytes.toString('hex'),
      secret.slice(0, half),
      secret.slice(-half),
    ]),
  ]
}

const isIn = (secret: Canary, text: string) => formsOf(secret).some(form => text.includes(form))

/** Every byte of every file below a directory, except sockets. */
const filesIn = (directory: string) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
const bytesOf = (file: string) => readFileSync(file, 'latin1')

/** A provider that echoes the request in its error; on request at the end of a long text. */
async function startEcho() {
  const server = createServer((request, response) => {
    const { authorization = '', 'x-api-key': first = '', 'x-goog-api-key': second = '' } = request.headers
    const padding = request.url?.includes('padded') ? 'x'.repeat(240) : ''
    const bare = authorization.replace(/^\S+ /, '')
    response.writeHead(request.url?.includes('refusing') ? 400 : 401, {
      'content-type': 'application/json',
      'x-echo': authorization,
    })
    const error = `${padding} incorrect key: ${bare}${first}${second} in ${authorization} at ${request.url}`
    response.end(JSON.stringify({ error }))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() }
}

const OPENAI = 1
const ANTHROPIC = 14
const GEMINI = 24
const VERTEX = 41
const DEEPGRAM = 1014

/** A separate database whose password is a canary. */
async function createGuardedDatabase(password: Canary) {
  const database = await createDatabase()
  const url = new URL(database.url)
  const role = `role_${random(12)}`
  const asAdmin = async (...statements: string[]) => {
    const client = new pg.Client({ connectionString: database.url.replace(url.pathname, '/postgres') })
    await client.connect()
    for (const statement of statements) await client.query(statement)
    await client.end()
  }
  await asAdmin(
    `create role ${role} login password '${password}'`,
    `alter database ${url.pathname.slice(1)} owner to ${role}`,
  )
  const guarded = new URL(url)
  guarded.username = role
  guarded.password = password
  return {
    url: guarded.href,
    async drop() {
      await database.drop()
      const client = new pg.Client({ connectionString: database.url.replace(url.pathname, '/postgres') })
      await client.connect()
      await client.query(`drop role ${role}`)
      await client.end()
    },
  }
}

/** SQLite uses a secret from the environment, PostgreSQL one that is generated in the data directory. */
const isSecretGiven = (engine: EngineName) => engine === 'sqlite'

for (const engine of oneEngine('sqlite')) {
  describe(`secrets on ${engine}`, () => {
    const dataDir = join(newDirectory(), 'data')
    const canaries = {
      masterKey: canary('master-key-'),
      databasePassword: canary('database-password-'),
      rootPassword: canary('root password '),
      rootAccessToken: canary('root-access-token-'),
      userPassword: canary('user password '),
      nextPassword: canary('next password '),
      lastPassword: canary('last password '),
      resetPassword: canary('reset-password-'),
      wrongPassword: canary('wrong password '),
      passwordAsName: canary('password-typed-as-name-'),
      longPassword: canary(random(120)),
      brokenPassword: canary('password-in-a-broken-body-'),
      misplaced: canary('secret-of-a-wrong-type-'),
      providerKey: canary('sk-proj-'),
      googleKey: canary('AIza'),
      plainKey: `plain words ${random(16)} and ${random(16)} more`,
      serviceAccount: JSON.stringify({
        project_id: 'p',
        private_key: `-----BEGIN ${random(40)}\n${random(40)}`,
      }),
      header: canary('in-a-header-'),
      batchHeader: canary('in-headers-of-several-'),
      tagHeader: canary('in-headers-of-a-tag-'),
      firstKey: canary('first-of-two-'),
      secondKey: canary('second-of-two-'),
      replacedKey: canary('replaced-'),
      echoedKey: canary('sk-ant-'),
      echoedWords: `echoed words ${random(16)} with ${random(16)} blanks`,
      echoedGoogle: canary('AIzaSy'),
      echoedToken: canary('deepgram-'),
      refusedKey: canary('of-a-provider-that-refuses-'),
      refusedWords: `refused words ${random(16)} with ${random(16)} blanks`,
      askedKey: canary('asked-before-there-is-a-channel-'),
      keyInQuery: canary('sk-'),
      keyInHeader: canary('sk-'),
      bearerInHeader: canary('sat-'),
      plainHeader: canary('not-of-any-known-shape-'),
      cookieInHeader: canary('cookie-'),
      malformed: canary('in-a-malformed-request-'),
      // Generated by the program and read from its output.
      tokenKey: '',
      repeatedKey: '',
      accessToken: '',
      rotatedToken: '',
      commandToken: '',
      session: '',
    }
    const replies: { readonly asked: string; readonly text: string; readonly shows: readonly Canary[] }[] = []
    let echo: Awaited<ReturnType<typeof startEcho>>
    let database: Awaited<ReturnType<typeof createGuardedDatabase>> | undefined
    let env: Env
    let server: Server
    let output = ''
    const whileRunning = new Map<string, string>()
    const modes = new Map<string, Stats>()

    const ask = async (
      method: string,
      path: string,
      body?: unknown,
      { shows = [], ...asking }: Asking & { shows?: readonly Canary[] } = {},
    ): Promise<Reply> => {
      const reply = await server.api(method, path, body, { token: canaries.rootAccessToken, ...asking })
      replies.push({ asked: `${method} ${path}`, text: reply.text, shows })
      return reply
    }
    /** The same, for a call that must succeed. */
    const make: typeof ask = async (...args) => {
      const reply = await ask(...args)
      assert.equal(reply.status, 200, `${args[0]} ${args[1]}: ${reply.text}`)
      return reply
    }
    /** A generated value is shown by the call that creates it. */
    const show = (secret: Canary) => {
      const last = replies.pop()
      assert.ok(last)
      replies.push({ ...last, shows: [...last.shows, secret] })
      assert.ok(last.text.includes(JSON.stringify(secret)), last.text)
    }

    before(async () => {
      echo = await startEcho()
      database = engine === 'postgres' ? await createGuardedDatabase(canaries.databasePassword) : undefined
      env = settingsOf({
        dataDir,
        databaseUrl: database?.url,
        env: {
          SLUICE_LOG: 'trace',
          SLUICE_ROOT_PASSWORD: canaries.rootPassword,
          SLUICE_ROOT_ACCESS_TOKEN: canaries.rootAccessToken,
          ...(isSecretGiven(engine) ? { SLUICE_SECRET: canaries.masterKey } : {}),
        },
      })
      // The most permissive umask: files that the program does not restrict stay readable for all users.
      const usual = process.umask(0)
      try {
        server = await startServer({ dataDir, env })
      } finally {
        process.umask(usual)
      }
      if (!isSecretGiven(engine)) canaries.masterKey = readFileSync(join(dataDir, 'secret'), 'utf8').trim()

      await plantCredentials()
      await plantChannels()
      await askProviders()
      await plantMistakes()
      await lookAround()
      await useCommands()

      for (const file of filesIn(dataDir)) whileRunning.set(file, bytesOf(file))
      for (const entry of ['.', ...readdirSync(dataDir, { recursive: true, encoding: 'utf8' })])
        modes.set(entry, statSync(join(dataDir, entry)))
      const ended = await server.stop()
      output += `${ended.stdout}${ended.stderr}`
    })
    after(async () => {
      echo.close()
      await database?.drop()
    })

    async function plantCredentials() {
      const user = { username: 'visible-user', password: canaries.userPassword }
      const { id } = (await make('POST', '/api/user/', user)).body.data
      await make('PUT', '/api/user/', { id, password: canaries.nextPassword })
      const signedIn = await make(
        'POST',
        '/api/user/login',
        { ...user, password: canaries.nextPassword },
        { token: null },
      )
      canaries.session = /sluice_session=(\w+)/.exec(signedIn.headers.get('set-cookie') ?? '')?.[1] ?? ''
      const headers = { cookie: `sluice_session=${canaries.session}` }
      const passwords = { original_password: canaries.nextPassword, password: canaries.lastPassword }
      await make('GET', '/api/user/sessions', undefined, { token: null, headers })
      await make('PUT', '/api/user/self', passwords, { token: null, headers })

      const token = (await make('POST', '/api/token/', { name: 'visible-token', unlimited_quota: true })).body
        .data
      canaries.tokenKey = token.key
      show(token.key)
      await make('POST', `/api/token/${token.id}/key`, undefined, { shows: [token.key] })
      await make('POST', '/api/token/batch/keys', { ids: [token.id] }, { shows: [token.key] })
      await make('GET', `/api/token/search?token=${token.key}`)
      await make('GET', '/api/usage/token/', undefined, { token: token.key })

      const repeated = { headers: { 'idempotency-key': 'the-same-call' } }
      canaries.repeatedKey = (await make('POST', '/api/token/', { name: 'repeated' }, repeated)).body.data.key
      show(canaries.repeatedKey)
      await make('POST', '/api/token/', { name: 'repeated' }, { ...repeated, shows: [canaries.repeatedKey] })

      canaries.accessToken = (
        await make('POST', '/api/user/access_token/', { name: 'visible' })
      ).body.data.token
      show(canaries.accessToken)
      canaries.rotatedToken = (await make('GET', '/api/user/token')).body.data
      show(canaries.rotatedToken)
      await make('GET', '/api/user/self', undefined, { token: canaries.accessToken })
    }

    async function plantChannels() {
      const channel = (type: number, key: string, more = {}) => ({
        mode: 'single',
        channel: { name: 'visible-channel', type, key, models: ['gpt-4o'], base_url: echo.url, ...more },
      })
      await make('POST', '/api/channel/', channel(OPENAI, canaries.providerKey))
      await make('POST', '/api/channel/', channel(GEMINI, canaries.googleKey))
      const plain = (await make('POST', '/api/channel/', channel(OPENAI, canaries.plainKey))).body.data.id
      await make('POST', `/api/channel/${plain}/key`, undefined, { shows: [canaries.plainKey] })
      await make('POST', '/api/channel/', channel(VERTEX, canaries.serviceAccount))
      const several = {
        ...channel(OPENAI, `${canaries.firstKey}\n${canaries.secondKey}`),
        mode: 'multi_to_single',
      }
      const { id } = (await make('POST', '/api/channel/', several)).body.data
      await make('PUT', '/api/channel/', { id, key: canaries.replacedKey, key_mode: 'append' })
      await make('PUT', '/api/channel/', { id, header_override: { 'X-Secret': canaries.header } })
      const copied = (await make('POST', `/api/channel/copy/${id}`)).body.data.id
      await make('PUT', '/api/channel/batch', {
        ids: [copied],
        fields: { tag: 'visible-tag', header_override: { 'X-Secret': canaries.batchHeader } },
      })
      await make('PUT', '/api/channel/tag', {
        tag: 'visible-tag',
        header_override: { 'X-Other-Secret': canaries.tagHeader },
      })
      await make('DELETE', `/api/channel/${id}/keys/0`)
      await make('POST', '/api/channel/multi_key/manage', { channel_id: id, action: 'get_key_status' })

      const echoed = [
        [ANTHROPIC, canaries.echoedKey],
        [OPENAI, canaries.echoedWords],
        [GEMINI, canaries.echoedGoogle],
        [DEEPGRAM, canaries.echoedToken],
      ] as const
      for (const [type, key] of echoed)
        for (const base_url of [echo.url, `${echo.url}/padded`]) {
          const { id: echoing } = (await make('POST', '/api/channel/', channel(type, key, { base_url }))).body
            .data
          const reply = await ask('GET', `/api/channel/fetch_models/${echoing}`)
          assert.deepEqual([reply.status, reply.body.code], [502, 'upstream_error'])
          assert.match(reply.body.message, /401.*(incorrect key|xxx)/)
        }
      // The client gets this message without the keys (docs/reference/errors.md: Provider errors).
      const refusing = { base_url: `${echo.url}/refusing`, models: ['gpt-4o-mini'] }
      await make('POST', '/api/channel/', channel(OPENAI, canaries.refusedKey, refusing))
      const padded = { base_url: `${echo.url}/padded/refusing`, models: ['gpt-4.1'] }
      await make('POST', '/api/channel/', channel(OPENAI, canaries.refusedWords, padded))
      for (const type of [OPENAI, DEEPGRAM])
        await ask('POST', '/api/channel/fetch_models', { type, key: canaries.askedKey, base_url: echo.url })
    }

    /** Requests whose provider errors contain the keys. */
    async function askProviders() {
      const { items } = (await make('GET', '/api/channel/?page_size=500')).body.data
      for (const { id } of items) {
        const reply = await ask('GET', `/api/channel/test/${id}`)
        assert.ok(reply.status === 200 || reply.status === 503, reply.text)
      }
      for (const model of ['gpt-4o', 'gpt-4o-mini', 'gpt-4.1'])
        for (const stream of [false, true]) {
          const body = { model, stream, messages: [{ role: 'user', content: 'hello' }] }
          const reply = await ask('POST', '/v1/chat/completions', body, { token: canaries.tokenKey })
          assert.ok(reply.status >= 400, reply.text)
          if (model !== 'gpt-4o') assert.match(reply.text, /incorrect key|xxx/)
        }
    }

    async function plantMistakes() {
      const nobody = { token: null }
      await ask('POST', '/api/user/login', { username: 'root', password: canaries.wrongPassword }, nobody)
      await ask('POST', '/api/user/login', { username: canaries.passwordAsName, password: 'x' }, nobody)
      await ask('POST', '/api/user/', { username: 'u', password: canaries.longPassword })
      await ask('POST', '/api/user/', { username: 'u', password: { value: canaries.misplaced } })
      await ask('POST', '/api/user/', { username: 'u', password: [canaries.misplaced] })
      const broken = [
        `{"username":"u","password":${canaries.brokenPassword}}`,
        `{"username":"u","password":"${canaries.brokenPassword}" "more":1}`,
        `{"username":"u","password":"${canaries.brokenPassword}`,
        `username=u&password=${canaries.brokenPassword}`,
        `${canaries.brokenPassword}`,
      ]
      for (const raw of broken) {
        const reply = await ask('POST', '/api/user/login', undefined, { ...nobody, raw })
        assert.equal(reply.status, 400)
      }
      const key = canaries.keyInQuery
      for (const path of [
        '/api/log/token',
        '/api/token/',
        '/api/nothing',
        '/v1/models',
        '/',
        '/docs/nothing',
      ])
        await ask('GET', `${path}?key=${key}&token=${key}`, undefined, nobody)
      await ask('POST', `/v1/chat/completions?key=${key}`, { model: 'gpt-4o', messages: [] }, nobody)
      for (const path of ['/api/user/self', '/api/log/token', '/v1/models']) {
        await ask('GET', path, undefined, { ...nobody, headers: { 'x-api-key': canaries.keyInHeader } })
        await ask('GET', path, undefined, { token: canaries.bearerInHeader })
        await ask('GET', path, undefined, { ...nobody, headers: { authorization: canaries.plainHeader } })
        await ask('GET', path, undefined, {
          ...nobody,
          headers: { cookie: `sluice_session=${canaries.cookieInHeader}` },
        })
      }
      await sendMalformed(
        `GET /api/user/self HTTP/1.1\r\nauthorization: Bearer ${canaries.malformed}\r\nbad header\r\n\r\n`,
      )
      await sendMalformed(
        `GET /api/%zz?key=${canaries.malformed} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`,
      )
      await sendMalformed(`${canaries.malformed}\r\n\r\n`)
    }

    /** Requests that no client library would send. */
    const sendMalformed = (bytes: string) =>
      new Promise<void>((resolve, reject) => {
        let text = ''
        const socket = connect(server.port, '127.0.0.1', () => void socket.write(bytes))
        socket.setEncoding('latin1').on('data', (chunk: string) => {
          text += chunk
        })
        socket.on('error', reject)
        socket.on('close', () => {
          replies.push({ asked: 'a malformed request', text, shows: [] })
          resolve()
        })
      })

    /** Everything that can be inspected afterwards. */
    async function lookAround() {
      const paths = [
        'token/',
        'channel/',
        'user/',
        'user/access_token/',
        'audit/',
        'log/',
        'log/self',
        'setting/',
      ]
      for (const path of paths) await make('GET', `/api/${path}?page_size=500`)
      await make('GET', '/api/channel/?page_size=500&tag_mode=true')
      for (const path of ['/api/pricing', '/api/status', '/api/openapi.json', '/api/user/self', '/docs', '/'])
        await ask('GET', path)
    }

    async function useCommands() {
      const command = async (...args: string[]) => {
        const { code, stdout, stderr } = await run(args, { env })
        assert.equal(code, 0, stderr)
        return { stdout: stdout.trim(), stderr }
      }
      const tokenOutput = await command('admin', 'access-token', 'visible-user')
      canaries.commandToken = tokenOutput.stdout
      output += tokenOutput.stderr
      const reset = await command(
        'admin',
        'reset-password',
        'visible-user',
        '--password',
        canaries.resetPassword,
      )
      const verified = await command('verify')
      output += `${reset.stdout}${reset.stderr}${verified.stdout}${verified.stderr}`
    }

    const secrets = () => Object.entries(canaries)
    const leaksIn = (text: string, allowed: readonly Canary[] = []) =>
      secrets()
        .filter(([, secret]) => !allowed.includes(secret) && isIn(secret, text))
        .map(([name]) => name)

    it('were all planted', () => {
      for (const [name, secret] of secrets()) assert.ok(secret.length >= 20, name)
      assert.equal(new Set(Object.values(canaries)).size, secrets().length)
      // The search finds values that are not secret, so it would find leaked secrets too.
      assert.ok(isIn(canaries.googleKey, `…${Buffer.from(canaries.googleKey).toString('base64')}…`))
      assert.ok(isIn(canaries.plainKey, `…${canaries.plainKey.slice(0, 30)}…`))
    })

    it('are in no line of the log, even at the most verbose level', () => {
      assert.ok(output.includes('"path":"/api/channel/"'))
      const answered = replies.filter(({ asked: requestLine }) => requestLine.includes(' /api/'))
      assert.ok(logLines(output).length > answered.length)
      assert.deepEqual(leaksIn(output), [])
    })

    it('are in no response except those that show them on purpose', () => {
      for (const { asked: requestLine, text, shows } of replies)
        assert.deepEqual(leaksIn(text, shows), [], `${requestLine}: ${text}`)
      assert.ok(replies.some(({ text }) => text.includes('visible-channel')))
    })

    it('are in no byte of the data directory, while the server runs and after it has ended', () => {
      const afterwards = filesIn(dataDir).map(file => [file, bytesOf(file)] as const)
      for (const [file, bytes] of [...whileRunning, ...afterwards]) {
        const allowedSecrets = file === join(dataDir, 'secret') ? [canaries.masterKey] : []
        assert.deepEqual(leaksIn(bytes, allowedSecrets), [], file)
      }
      const all = [...whileRunning.values()].join('')
      assert.ok(all.includes('visible-token') || engine === 'postgres')
    })

    it('are in no row of any table', async () => {
      const store = database
        ? openStore({ engine: 'postgres', url: database.url })
        : openStore({ engine: 'sqlite', path: join(dataDir, 'sluice.db'), fullSync: false })
      const tables = await allRows(store.db)
      await store.close()
      for (const name of [
        'channel_keys',
        'tokens',
        'access_tokens',
        'sessions',
        'idempotency',
        'audit',
        'users',
      ])
        assert.ok((tables.get(name)?.length ?? 0) > 0, `${name} is empty`)
      for (const [name, rows] of tables) assert.deepEqual(leaksIn(JSON.stringify(rows)), [], name)
    })

    it('are in a directory and in files that only the owner can read', () => {
      assert.ok(modes.has('secret') !== isSecretGiven(engine))
      assert.equal(modes.has('sluice.db-wal'), engine === 'sqlite')
      for (const [entry, stats] of modes) {
        const mode = (stats.mode & 0o777).toString(8)
        assert.equal(mode, stats.isDirectory() ? '700' : '600', entry)
      }
    })
  })
}

describe('a wrong database password', () => {
  it('is not repeated in the error message', async () => {
    const secret = canary('database-password-')
    const database = await createDatabase()
    const url = new URL(database.url)
    url.password = secret
    const dataDir = join(newDirectory(), 'data')
    const { code, stdout, stderr } = await run(['start'], {
      env: settingsOf({ dataDir, databaseUrl: url.href }),
    })
    assert.equal(code, 78)
    assert.match(stderr, /^sluice: DATABASE_URL cannot be used: /)
    assert.ok(!isIn(secret, stdout + stderr))
    await database.drop()
  })
})

describe('a line of the log', () => {
  const secret = random(32)
  const LINES = [
    `Authorization: Bearer ${secret}`,
    `authorization: bearer ${secret}`,
    `Basic ${secret}`,
    `the key sk-${secret} is wrong`,
    `sk-proj-${secret}`,
    `AIza${secret}`,
    `sat-${secret}`,
    `gsk_${secret}`,
    `xai-${secret}`,
    `https://host/v1beta/models?key=${secret}`,
    `https://host/?a=b&access_token=${secret}&c=d`,
    `cookie: sluice_session=${secret}; other=1`,
    `postgres://sluice:${secret}@host:5432/db`,
    `postgresql://sluice:with@${secret}@host/db`,
  ]

  it('loses texts that look like a credential, and keeps the rest', () => {
    for (const line of LINES) {
      const scrubbedLine = scrub(`{"msg":${JSON.stringify(`before ${line} after`)}}\n`)
      assert.ok(!scrubbedLine.includes(secret), scrubbedLine)
      assert.match(scrubbedLine, /^\{"msg":"before .*\[redacted\].* after"\}\n$/)
      JSON.parse(scrubbedLine)
    }
    const harmless = '{"msg":"task sk-1 of risk-averse people; key=value; see postgres://host/db"}\n'
    assert.equal(scrub(harmless), harmless)
  })

  it('is truncated when it is very long, and texts that look like a credential are still removed', () => {
    const scrubbedLine = scrub(`{"msg":"sk-${secret}${' x'.repeat(1_000_000)}"}\n`)
    assert.ok(scrubbedLine.length < 20_000)
    assert.ok(!scrubbedLine.includes(secret))
  })
})
