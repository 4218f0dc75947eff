import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { parseSync } from 'oxc-parser'

export type Arrow = { readonly from: string; readonly to: string }
/** A name and the file and line that declare it. */
export type Declaration = { readonly name: string; readonly at: string }

const parsed = new Map<string, { text: string; result: ReturnType<typeof parseSync> }>()

function parse(file: string) {
  const cached = parsed.get(file)
  if (cached) return cached
  const text = readFileSync(file, 'utf8')
  const result = parseSync(file, text)
  assert.deepEqual(result.errors, [], `${file} does not parse`)
  const entry = { text, result }
  parsed.set(file, entry)
  return entry
}

/** Every import of a file, including type imports: a type is a dependency as well. */
export function importsOf(file: string): readonly string[] {
  const { text, result } = parse(file)
  const { staticImports, staticExports, dynamicImports } = result.module
  const requests = [
    ...staticImports.map(each => each.moduleRequest.value),
    ...staticExports.flatMap(each => each.entries.flatMap(entry => entry.moduleRequest?.value ?? [])),
    ...dynamicImports.map(each => text.slice(each.moduleRequest.start + 1, each.moduleRequest.end - 1)),
  ]
  return requests.map(name => (name.startsWith('.') ? normalize(join(dirname(file), name)) : name))
}

/** The imports that are loaded together with a file: neither types nor dynamic imports. */
export function loadedWith(file: string): readonly string[] {
  const { staticImports, staticExports } = parse(file).result.module
  const requests = [
    ...staticImports.flatMap(({ moduleRequest, entries }) =>
      entries.length > 0 && entries.every(entry => entry.isType) ? [] : moduleRequest.value,
    ),
    ...staticExports.flatMap(({ entries }) =>
      entries.flatMap(entry => (entry.isType ? [] : (entry.moduleRequest?.value ?? []))),
    ),
  ]
  return requests.map(name => (name.startsWith('.') ? normalize(join(dirname(file), name)) : name))
}

export const arrowsOf = (files: readonly string[]): readonly Arrow[] =>
  files.flatMap(from => importsOf(from).map(to => ({ from, to })))

/** The files of the first import cycle; undefined if there is none. */
export function cycleIn(files: readonly string[], arrows: readonly Arrow[]): readonly string[] | undefined {
  const next = Map.groupBy(arrows, ({ from }) => from)
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): readonly string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return undefined
    for (const { to } of next.get(file) ?? []) {
      const cycle = visit(to, [...path, file])
      if (cycle) return cycle
    }
    done.add(file)
    return undefined
  }
  for (const file of files) {
    const cycle = visit(file, [])
    if (cycle) return cycle
  }
  return undefined
}

type Node = { readonly type: string; readonly start: number; readonly [member: string]: unknown }

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'

/** The identifiers that a pattern declares, through destructuring and defaults. */
function namesIn(pattern: unknown): readonly Node[] {
  if (!isNode(pattern)) return []
  if (pattern.type === 'Identifier') return [pattern]
  if (pattern.type === 'AssignmentPattern') return namesIn(pattern.left)
  if (pattern.type === 'RestElement') return namesIn(pattern.argument)
  if (pattern.type === 'TSParameterProperty') return namesIn(pattern.parameter)
  if (pattern.type === 'ArrayPattern') return (pattern.elements as unknown[]).flatMap(namesIn)
  if (pattern.type !== 'ObjectPattern') return []
  return (pattern.properties as Node[]).flatMap(each =>
    namesIn(each.type === 'RestElement' ? each : each.value),
  )
}

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])

/** What a syntax node itself declares: variables, parameters, destructured names, functions. */
function declaredBy(node: Node): readonly Node[] {
  if (node.type === 'VariableDeclarator') return namesIn(node.id)
  if (node.type === 'CatchClause') return namesIn(node.param)
  if (FUNCTIONS.has(node.type)) return [...(node.params as unknown[]).flatMap(namesIn), ...namesIn(node.id)]
  return []
}

function visitAll(value: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(value)) for (const each of value) visitAll(each, visit)
  if (!isNode(value)) return
  visit(value)
  for (const [member, child] of Object.entries(value)) if (member !== 'parent') visitAll(child, visit)
}

/** The variables, parameters and functions of a file with one of these names. */
export function declaredAmong(file: string, targetNames: ReadonlySet<string>): readonly Declaration[] {
  const { text, result } = parse(file)
  const names: Declaration[] = []
  visitAll(result.program.body, node => {
    for (const { name, start } of declaredBy(node))
      if (targetNames.has(name as string))
        names.push({ name: name as string, at: `${file}:${text.slice(0, start).split('\n').length}` })
  })
  return names
}

const TYPES = new Set(['TSTypeAliasDeclaration', 'TSInterfaceDeclaration', 'ClassDeclaration'])

export const exportedTypes = (file: string): readonly Declaration[] =>
  parse(file).result.program.body.flatMap(statement => {
    const declaration = statement.type === 'ExportNamedDeclaration' ? statement.declaration : undefined
    if (!declaration || !TYPES.has(declaration.type)) return []
    return [{ name: (declaration as unknown as { id: { name: string } }).id.name, at: file }]
  })

export const commentWords = (file: string): readonly string[] =>
  parse(file).result.comments.flatMap(({ value }) => value.match(/[A-Za-z']+/g) ?? [])

/** Whether a file imports this name of a module, under whatever name. */
export const importsName = (file: string, module: string, name: string): boolean =>
  parse(file).result.module.staticImports.some(
    ({ moduleRequest, entries }) =>
      moduleRequest.value === module && entries.some(({ importName }) => importName.name === name),
  )

const CLOCKS = new Set(['performance', 'Date'])

/** Whether a node is `performance.now() - …` or `Date.now() - …`. */
function isDuration({ type, operator, left: minuend }: Node): boolean {
  if (type !== 'BinaryExpression' || operator !== '-' || !isNode(minuend) || !isNode(minuend.callee))
    return false
  const { object, property } = minuend.callee
  return isNode(object) && CLOCKS.has(object.name as string) && isNode(property) && property.name === 'now'
}

const isAssertion = ({ callee }: Node): boolean =>
  isNode(callee) && (callee.name === 'assert' || (isNode(callee.object) && callee.object.name === 'assert'))

/** The number that a node writes for a member with one of these names. */
function numberOf({ type, key, value }: Node, members: ReadonlySet<string>): number | undefined {
  if (type !== 'Property' || !isNode(key) || !members.has(key.name as string)) return undefined
  return isNode(value) && typeof value.value === 'number' ? value.value : undefined
}

export type TimingFacts = {
  /** The functions that the file calls by their bare names. */
  readonly calls: ReadonlySet<string>
  /** The numbers that it writes for members with the names of timeouts. */
  readonly timeoutsMs: readonly number[]
  /** Whether it asserts how long something took. */
  readonly assertsDuration: boolean
}

/** What in a file may depend on the time, in one walk: there are hundreds of test files. */
export function timingOf(file: string, timeouts: ReadonlySet<string>): TimingFacts {
  const calls = new Set<string>()
  const timeoutsMs: number[] = []
  let assertsDuration = false
  visitAll(parse(file).result.program.body, node => {
    const ms = numberOf(node, timeouts)
    if (ms !== undefined) timeoutsMs.push(ms)
    if (node.type !== 'CallExpression') return
    if (isNode(node.callee) && node.callee.type === 'Identifier') calls.add(node.callee.name as string)
    if (isAssertion(node))
      visitAll(node.arguments, inner => {
        assertsDuration ||= isDuration(inner)
      })
  })
  return { calls, timeoutsMs, assertsDuration }
}
