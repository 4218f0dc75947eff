/** JSON as it is written: every member of an object in order, including repeated ones. */
export type Tree = string | number | boolean | null | readonly Tree[] | Written
export type Written = { readonly members: readonly (readonly [name: string, value: Tree])[] }

const isWritten = (tree: Tree | undefined): tree is Written =>
  typeof tree === 'object' && tree !== null && 'members' in tree
const isList = (tree: Tree | undefined): tree is readonly Tree[] => Array.isArray(tree)

const TOKEN = /\s*([{}[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}[\],:"]+)/y

/** Parses JSON without deciding what a repeated name means. */
export function readTree(text: string): Tree {
  const tokens: string[] = []
  TOKEN.lastIndex = 0
  for (let match = TOKEN.exec(text); match !== null; match = TOKEN.exec(text)) tokens.push(match[1] as string)
  let at = 0
  const next = () => tokens[at++] as string

  function value(): Tree {
    const token = next()
    if (token === '{') return object()
    if (token === '[') return list()
    return JSON.parse(token)
  }
  function object(): Written {
    const members: (readonly [string, Tree])[] = []
    for (let token = next(); token !== '}'; token = next()) {
      const name = JSON.parse(token === ',' ? next() : token) as string
      next() // the colon
      members.push([name, value()])
    }
    return { members }
  }
  function list(): readonly Tree[] {
    const items: Tree[] = []
    while (tokens[at] !== ']') {
      if (tokens[at] === ',') at += 1
      items.push(value())
    }
    at += 1
    return items
  }
  return value()
}

/** Folds names like Go's decoder: by case, and the two non-ASCII letters whose other case is ASCII. */
const goFold = (name: string) => name.replaceAll('\u212a', 'k').replaceAll('\u017f', 's').toLowerCase()

/** Which of an object's members a server reads as a field with these names. */
export type NameReader = (object: Written, names: readonly string[]) => Tree | undefined

export const READERS: Readonly<Record<string, NameReader>> = {
  'case-folding': ({ members }, names) => {
    const folds = names.map(goFold)
    return members.findLast(([name]) => folds.includes(goFold(name)))?.[1]
  },
  'first-wins': ({ members }, names) => members.find(([name]) => names.includes(name))?.[1],
  'last-wins': ({ members }, names) => members.findLast(([name]) => names.includes(name))?.[1],
}

/**
 * A field with the names that a server accepts; an object under some of them is client data, whatever it
 * contains.
 */
export type Field = { readonly names: readonly string[]; readonly isOwnWords: boolean }

/** What a server reads from a request: the fields that it knows, at any depth, in one spelling each. */
export function understood(reader: NameReader, tree: Tree | undefined, fields: readonly Field[]): unknown {
  if (isList(tree)) return tree.map(each => understood(reader, each, fields))
  if (!isWritten(tree)) return tree
  return Object.fromEntries(
    fields.flatMap(({ names, isOwnWords }) => {
      const value = reader(tree, names)
      if (value === undefined || (isOwnWords && isWritten(value))) return []
      return [[names[0] as string, understood(reader, value, fields)]]
    }),
  )
}
