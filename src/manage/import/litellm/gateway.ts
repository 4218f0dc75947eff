import type { JsonObject } from '../../../domain/json-object.ts'
import { NEVER } from '../../../domain/token.ts'
import type { Digest } from '../../../identity/credentials.ts'
import type { SourceGateway, SourceToken, SourceUser } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import { type SourceDatabase, SourceError } from '../source/database.ts'
import {
  masterKeyOf,
  noteSettings,
  readAccessGroups,
  readAliases,
  readConfigChannels,
  readConfigPrices,
} from './config.ts'
import { createLiteLlmDatabase, OWNER } from './database.ts'

type Options = {
  readonly config: JsonObject
  readonly database: SourceDatabase | undefined
  readonly digest: Digest
  readonly now: number
  readonly notes: ImportNotes
}

/** The ID of the master key among tokens. */
export const MASTER = 'master key'

/** LiteLLM: its configuration file, and the users and keys of its database. */
export async function openLiteLlm({ config, database, digest, now, notes }: Options): Promise<SourceGateway> {
  if (database && !(await database.columnsOf('LiteLLM_VerificationToken')).has('token'))
    throw new SourceError('the database has no table "LiteLLM_VerificationToken"')
  const channels = readConfigChannels(config, { digest, notes })
  const models = {
    names: [...new Set(channels.flatMap(({ fields }) => fields.models as string[]))],
    accessGroups: readAccessGroups(config),
  }
  const stored = database && createLiteLlmDatabase(database, notes, models)
  const masterKey = masterKeyOf(config)
  const hasMaster = /^sk-[\x21-\x7e]{5,250}$/.test(masterKey)

  const owner: SourceUser = {
    sourceId: OWNER,
    anchor: '',
    label: 'owner of keys without a user',
    name: 'litellm',
    displayName: 'LiteLLM',
    email: '',
    passwordHash: '',
    role: 1,
    isEnabled: true,
    group: 'default',
    createdTime: 0,
    accessToken: '',
    limits: '{}',
    nanos: 0,
    isUnlimited: true,
  }
  const master: SourceToken = {
    sourceId: MASTER,
    anchor: '',
    label: 'the master key',
    ownerId: OWNER,
    key: { value: masterKey },
    name: 'master key',
    isEnabled: true,
    createdTime: 0,
    expiredTime: NEVER,
    models: undefined,
    allowIps: [],
    group: 'default',
    limits: '{}',
    nanos: 0,
    isUnlimited: true,
  }

  return {
    async *users() {
      if (stored || hasMaster) yield [owner]
      if (stored) yield* stored.users()
    },
    async *tokens() {
      if (hasMaster) yield [master]
      if (stored) yield* stored.tokens()
    },
    async *channels() {
      if (channels.length > 0) yield channels
    },
    // The configuration alone has no users, and no token but the master key.
    isDeletion: (kind, sourceId) => stored !== undefined || (kind === 'token' && sourceId === MASTER),
    prices: async () => readConfigPrices(config, notes, now * 1000),
    aliases: async () => readAliases(config),
    async conclude() {
      if (masterKey !== '')
        notes.note(
          'token',
          'the master key',
          hasMaster
            ? 'becomes a token of the user "litellm" without limits. It is no administrator’s credential here'
            : 'does not begin with sk-; it is not carried over',
        )
      if (stored)
        notes.note(
          'user',
          'all users',
          'have no passwords that can be carried over; set one for those who sign in',
        )
      noteSettings(config, notes)
      await stored?.noteUnsupported()
    },
  }
}
