import { statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { MAX_KEY_LENGTH } from '../domain/channel-key.ts'
import { isKeyFile } from '../domain/import.ts'
import { isObject, type JsonObject } from '../domain/json-object.ts'
import { CommandError } from './command.ts'

const MAX_BYTES = 4 * 1024 * 1024
const MAX_FILES = 50
const MAX_DEPTH = 100
const VARIABLE = /^os\.environ\/(.+)$/
/** Settings of this gateway, such as its master secret, are no keys of providers: a file must not send them to one. */
const OWN_VARIABLE = /^SLUICE_/i

type Deps = {
  variable(name: string): string | undefined
  readText(path: string): string
}

/** Replaces `os.environ/NAME` anywhere in a value. A variable that is not set stays as it is written. */
function resolveVariables(value: unknown, variable: Deps['variable'], depth = 0): unknown {
  if (depth > MAX_DEPTH) throw new CommandError('--config: the file is nested too deeply')
  if (typeof value === 'string') {
    const name = VARIABLE.exec(value)?.[1]
    if (name === undefined || OWN_VARIABLE.test(name)) return value
    return variable(name) ?? value
  }
  if (Array.isArray(value)) return value.map(item => resolveVariables(item, variable, depth + 1))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, resolveVariables(item, variable, depth + 1)]),
  )
}

/** Lists are joined, and objects are merged, as LiteLLM does. */
function merge(first: JsonObject, second: JsonObject): JsonObject {
  const merged: Record<string, unknown> = { ...first }
  for (const [name, value] of Object.entries(second)) {
    const before = merged[name]
    if (Array.isArray(before) && Array.isArray(value)) merged[name] = [...before, ...value]
    else if (isObject(before) && isObject(value)) merged[name] = { ...before, ...value }
    else merged[name] = value
  }
  return merged
}

/** The text of a service account's file. Any other file is not read as a key: its text would be sent to a provider. */
function readServiceAccount(value: unknown, readText: Deps['readText']): string | undefined {
  const path = typeof value === 'string' ? value.trim() : ''
  if (!isKeyFile(path)) return undefined
  try {
    if (statSync(path).size > MAX_KEY_LENGTH) return undefined
    const text = readText(path)
    const parsed: unknown = JSON.parse(text)
    return isObject(parsed) && typeof parsed.private_key === 'string' ? text : undefined
  } catch {
    return undefined
  }
}

/** `vertex_credentials` may be the path of a file. A file that cannot be read stays as it is written. */
function resolveServiceAccounts(config: JsonObject, readText: Deps['readText']): JsonObject {
  if (!Array.isArray(config.model_list)) return config
  const list = config.model_list.map((entry: unknown) => {
    const params = isObject(entry) ? entry.litellm_params : undefined
    if (!isObject(entry) || !isObject(params)) return entry
    const account = readServiceAccount(params.vertex_credentials, readText)
    return account === undefined
      ? entry
      : { ...entry, litellm_params: { ...params, vertex_credentials: account } }
  })
  return { ...config, model_list: list }
}

/** Reads LiteLLM's configuration with the files that it includes, and the variables of this environment. */
export async function readLiteLlmConfig(path: string, { variable, readText }: Deps): Promise<JsonObject> {
  const { parse } = await import('yaml')
  const files = new Set<string>()

  function read(file: string): JsonObject {
    if (files.has(file)) return {}
    files.add(file)
    if (files.size > MAX_FILES)
      throw new CommandError(`--config: the file includes more than ${MAX_FILES} others`)
    const text = readText(file)
    if (text.length > MAX_BYTES || statSync(file).size > MAX_BYTES)
      throw new CommandError(`--config: ${file} is larger than 4 MiB`)
    let parsed: unknown
    try {
      parsed = parse(text)
    } catch (error) {
      // The whole message quotes the lines of the file, which may hold keys.
      const { line } = (error as { linePos?: { line: number }[] }).linePos?.[0] ?? {}
      throw new CommandError(
        `--config: ${file} is no valid YAML${line === undefined ? '' : ` (line ${line})`}`,
      )
    }
    if (!isObject(parsed)) throw new CommandError(`--config: ${file} has no settings`)
    const { include, ...config } = parsed
    const names = (Array.isArray(include) ? include : include === undefined ? [] : [include]).map(String)
    return names.reduce(
      (whole, name) => merge(whole, read(resolve(dirname(file), name))),
      config as JsonObject,
    )
  }

  const config = resolveVariables(read(resolve(path)), variable) as JsonObject
  return resolveServiceAccounts(config, readText)
}
