import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describeFailure } from '../../src/app/program.ts'
import { createApi, type EngineName, ROOT_TOKEN } from './gateway.ts'
import { createDatabase } from './postgres.ts'
import {
  type Ended,
  type Env,
  lookInto,
  newDirectory,
  type Server,
  type ServerOptions,
  startGatewayOn,
  until,
} from './process.ts'

/**
 * A data directory, and a database if the engine needs one, that no server has used yet. The database is
 * removed with the PostgreSQL of the tests.
 */
export async function emptyGround(engine: EngineName): Promise<ServerOptions> {
  const dataDir = join(newDirectory(), 'data')
  return engine === 'sqlite' ? { dataDir } : { dataDir, databaseUrl: (await createDatabase()).url }
}

export const countRoots = (ground: ServerOptions) =>
  lookInto(ground, async ({ db }) => {
    const rows = await db.selectFrom('users').select('id').where('username', '=', 'root').execute()
    return rows.length
  })

export const printedPassword = (stdout: string) => /shown only once\):\s+(\S+)/.exec(stdout)?.[1]

export const login = (url: string, password: string, headers: Env = {}) =>
  createApi(url, ROOT_TOKEN)(
    'POST',
    '/api/user/login',
    { username: 'root', password },
    { token: null, headers },
  )

type Output = Pick<Ended, 'code' | 'stdout' | 'stderr'>

/** Ended by an invalid setting: one sentence that names it, exit 78, and no stack trace. */
export function assertSettingRefused({ code, stdout, stderr }: Output, setting: string): void {
  assert.equal(code, 78, `${stdout}${stderr}`)
  assert.match(stderr, new RegExp(`^sluice: [^\\n]*\\b${setting}\\b[^\\n]*\\n$`))
}

/** The exit code and the message with which a start on this store fails, in this process. */
export async function failedStart(options: ServerOptions): Promise<Output> {
  const error = await startGatewayOn(options).then(
    async gateway => {
      await gateway.close()
      return assert.fail('the gateway started')
    },
    (reason: unknown) => reason,
  )
  const { code, message } = describeFailure(error)
  return { code, stdout: '', stderr: `sluice: ${message}\n` }
}

export const refusesConnections = (url: string) =>
  until(`${url} to be closed`, () =>
    fetch(url).then(
      () => undefined,
      () => true,
    ),
  )

/** Waits for the line of the log that begins with this message. */
export const untilLogged = (server: Server, message: string) =>
  until(message, () => (server.lines().some(({ msg }) => String(msg).startsWith(message)) ? true : undefined))
