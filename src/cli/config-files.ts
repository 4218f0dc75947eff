import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { CommandError } from './command.ts'

/** Reads the files of `sluice apply` (docs/reference/configuration-file.md: Files). */

const MAX_BYTES = 8 * 1024 * 1024
const MAX_SECRET_BYTES = 64 * 1024
const FILE_NAME = /\.(?:ya?ml|json)$/i

const SECTIONS = ['settings', 'channels', 'aliases', 'prices', 'users', 'tokens', 'alerts'] as const
type Section = (typeof SECTIONS)[number]
type Json = Readonly<Record<string, unknown>>

/** Where an item comes from: its path in its own file. */
type Origin = {
  readonly file: string
  readonly path: readonly (string | number)[]
  lineOf(path: Path): number
}
type Path = readonly (string | number)[]

/** Fields that contain secrets. Every text in an object is one if it is a reference. */
const SECRET_FIELDS: Partial<Record<Section, readonly string[]>> = {
  channels: ['key', 'keys', 'header_override', 'setting'],
  users: ['password'],
  alerts: ['url', 'secret', 'bot_token'],
  settings: ['value'],
}
/** Fields whose value should never be written in the file itself. */
const ALWAYS_SECRET: ReadonlySet<string> = new Set(['key', 'keys', 'password', 'secret', 'bot_token'])

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export type ConfigFiles = {
  readonly document: Json
  readonly names: readonly string[]
  readonly warnings: readonly string[]
  /** Replaces a path at the start of each line by the file and line. */
  locate(message: string): string
}

type Variables = ((name: string) => string | undefined) | undefined

/** The files that the arguments name: files as they are, and those of directories in the order of their names. */
function listFiles(paths: readonly string[]): readonly string[] {
  const files = paths.flatMap(path => {
    if (!stat(path).isDirectory()) return [path]
    const names = readdirSync(path).filter(name => FILE_NAME.test(name) && !name.startsWith('.'))
    if (names.length === 0) throw new CommandError(`${path} contains no .yaml, .yml or .json file`)
    return names.sort().map(name => join(path, name))
  })
  const size = files.reduce((sum, file) => sum + stat(file).size, 0)
  if (size > MAX_BYTES)
    throw new CommandError(`the configuration has ${size} bytes; the maximum is ${MAX_BYTES}`)
  return files
}

function stat(path: string) {
  try {
    return statSync(path)
  } catch (error) {
    throw new CommandError(`${path} cannot be read: ${(error as Error).message}`)
  }
}

function readSecret(path: string, at: string): string {
  let text: Buffer
  try {
    const { size } = statSync(path)
    if (size > MAX_SECRET_BYTES)
      throw new CommandError(`${at}: ${path} has more than ${MAX_SECRET_BYTES} bytes`)
    text = readFileSync(path)
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new CommandError(`${at}: ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
  return text.toString('utf8').replace(/\r?\n$/, '')
}

async function parseFile(file: string) {
  const { isScalar, LineCounter, parseDocument, visit } = await import('yaml')
  const lineCounter = new LineCounter()
  const document = parseDocument(readFileSync(file, 'utf8'), { lineCounter, prettyErrors: false })
  const refuse = (offset: number, message: string): never => {
    throw new CommandError(`${file}:${lineCounter.linePos(offset).line}: ${message}`)
  }
  // The text of a tag that has no meaning here, such as !vault, would become the value.
  const [fault] = [
    ...document.errors,
    ...document.warnings.filter(({ code }) => code === 'TAG_RESOLVE_FAILED'),
  ]
  if (fault) refuse(fault.pos[0], fault.message)
  // JSON has no such numbers: on the way to the gateway they would become null, which means no limit.
  visit(document, (_key, node) => {
    if (isScalar(node) && typeof node.value === 'number' && !Number.isFinite(node.value))
      refuse(node.range?.[0] ?? 0, `${node.source} is not a finite number`)
  })
  /** The line of the deepest node on the path. */
  const lineOf = (path: Path): number => {
    for (let length = path.length; length > 0; length--) {
      const node = document.getIn(path.slice(0, length), true) as { range?: readonly number[] } | undefined
      const [start] = node?.range ?? []
      if (start !== undefined) return lineCounter.linePos(start).line
    }
    return 1
  }
  let content: unknown
  try {
    content = document.toJS({ maxAliasCount: 100 })
  } catch (error) {
    throw new CommandError(`${file}: ${(error as Error).message}`)
  }
  if (!isObject(content)) throw new CommandError(`${file}: must be a map that begins with "version: 1"`)
  return { file, content, lineOf }
}

type ParsedFile = Awaited<ReturnType<typeof parseFile>>

/** The items of a section, each with its path in the file. Settings may be a map. */
function itemsOf({ content, file }: ParsedFile, section: Section): readonly (readonly [unknown, Path])[] {
  const value = content[section]
  if (value === undefined || value === null) return []
  if (Array.isArray(value)) return value.map((item, index) => [item, [section, index]])
  if (section === 'settings' && isObject(value))
    return Object.entries(value).map(([key, setting]) => [{ key, value: setting }, [section, key]])
  throw new CommandError(`${file}: ${section} must be a list`)
}

function readReference(
  text: string,
  at: string,
  { variable, directory }: { variable: Variables; directory: string },
): string {
  const [, scheme, name = ''] = /^(env|file):(.*)$/s.exec(text) ?? []
  if (scheme === undefined) return text
  if (scheme === 'env') {
    const value = variable?.(name)
    if (value === undefined || value === '')
      throw new CommandError(`${at}: the environment variable ${name} is not set`)
    return value
  }
  return readSecret(resolve(directory, name), at)
}

const isReference = (text: string) => /^(?:env|file):/.test(text)

/** Reads the files and replaces references to secrets by their values. */
export async function readConfigFiles(paths: readonly string[], variable: Variables): Promise<ConfigFiles> {
  const files = await Promise.all(listFiles(paths).map(parseFile))
  const sections = new Map<Section, unknown[]>()
  const origins = new Map<string, Origin>()
  const warnings: string[] = []

  for (const parsed of files) {
    const { file, content, lineOf } = parsed
    const unknown = Object.keys(content).find(
      name => name !== 'version' && !SECTIONS.some(section => section === name),
    )
    if (unknown !== undefined)
      throw new CommandError(
        `${file}:${lineOf([unknown])}: "${unknown}" is not a section; the sections are ${SECTIONS.join(', ')}`,
      )
    if (content.version !== 1) throw new CommandError(`${file}:${lineOf(['version'])}: version must be 1`)
    const directory = dirname(resolve(file))

    const placeOf = (path: Path) => `${file}:${lineOf(path)}: ${path.join('.')}`

    const resolveSecrets = (value: unknown, path: Path): unknown => {
      if (typeof value === 'string') return readReference(value, placeOf(path), { variable, directory })
      if (Array.isArray(value)) return value.map((entry, index) => resolveSecrets(entry, [...path, index]))
      if (!isObject(value)) return value
      return Object.fromEntries(
        Object.entries(value).map(([name, entry]) => [name, resolveSecrets(entry, [...path, name])]),
      )
    }

    for (const section of SECTIONS) {
      const list = sections.get(section) ?? []
      sections.set(section, list)
      for (const [item, path] of itemsOf(parsed, section)) {
        origins.set(`${section}.${list.length}`, { file, path, lineOf })
        if (!isObject(item)) {
          list.push(item)
          continue
        }
        const resolved: Record<string, unknown> = { ...item }
        for (const field of SECRET_FIELDS[section] ?? []) {
          const isPlain = [item[field]].flat().some(value => typeof value === 'string' && !isReference(value))
          if (ALWAYS_SECRET.has(field) && item[field] != null && isPlain)
            warnings.push(
              `${placeOf([...path, field])} is written in the file. Use env:NAME or file:PATH instead.`,
            )
          if (field in item) resolved[field] = resolveSecrets(item[field], [...path, field])
        }
        list.push(resolved)
      }
    }
  }

  function locateLine(line: string): string {
    const match = /^([a-z]+)\.(\d+)((?:\.[^\s.:]+)*)/.exec(line)
    const origin = match && origins.get(`${match[1]}.${match[2]}`)
    if (!origin) return line
    const rest = (match[3] ?? '').split('.').slice(1)
    // A setting of a map is an item with a key and a value here.
    const path = [...origin.path, ...(typeof origin.path[1] === 'string' ? rest.slice(1) : rest)]
    return `${origin.file}:${origin.lineOf(path.map(part => (/^\d+$/.test(String(part)) ? Number(part) : part)))}: ${path.join('.')}${line.slice(match[0].length)}`
  }

  const filled = [...sections].filter(([, list]) => list.length > 0)
  return {
    document: { version: 1, ...Object.fromEntries(filled) },
    names: files.map(({ file }) => basename(file)),
    warnings,
    locate: message => message.split('\n').map(locateLine).join('\n'),
  }
}
