import { DECISIVE, ROUTING_FIELDS } from '../../src/requests/field-names.ts'
import { type Field, readTree, type Tree, type Written } from './name-readers.ts'
import { fc } from './properties.ts'

/** A valid request of an operation, with `MODEL` as its model name everywhere. */
export type GoodRequest = {
  readonly path: string
  readonly body: object
  /** Names are accepted in snake case and in camel case. */
  readonly isEither?: true
  /** Its cost depends on a limit and a number of choices. */
  readonly isChat?: true
}

export const MODEL = 'a-model'
const IMAGE = 'https://img.example/a.png'
const MESSAGES = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'hi' }] },
]
const CONTENTS = [{ role: 'user', parts: [{ text: 'hi' }] }]
const CONFIG = { maxOutputTokens: 9, candidateCount: 1, thinkingConfig: { thinkingBudget: 5 } }

export const GOOD_REQUESTS: readonly GoodRequest[] = [
  {
    path: '/v1/chat/completions',
    body: {
      model: MODEL,
      messages: MESSAGES,
      max_tokens: 9,
      n: 1,
      stream_options: { include_usage: true },
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
    },
    isChat: true,
  },
  {
    path: '/v1/completions',
    body: { model: MODEL, prompt: 'hi', max_tokens: 9, n: 1, best_of: 2 },
    isChat: true,
  },
  {
    path: '/v1/responses',
    body: {
      model: MODEL,
      input: [{ role: 'user', content: 'hi' }],
      max_output_tokens: 16,
      reasoning: { effort: 'low' },
    },
    isChat: true,
  },
  {
    path: '/v1/messages',
    body: {
      model: MODEL,
      messages: MESSAGES.slice(1),
      max_tokens: 2_000,
      thinking: { type: 'enabled', budget_tokens: 1_024 },
    },
    isChat: true,
  },
  { path: '/v1/messages/count_tokens', body: { model: MODEL, messages: MESSAGES.slice(1) } },
  {
    path: `/v1beta/models/${MODEL}:generateContent`,
    body: { contents: CONTENTS, generationConfig: CONFIG },
    isEither: true,
  },
  { path: `/v1beta/models/${MODEL}:countTokens`, body: { contents: CONTENTS }, isEither: true },
  {
    path: `/v1beta/models/${MODEL}:batchEmbedContents`,
    body: { requests: [{ model: `models/${MODEL}`, content: { parts: [{ text: 'hi' }] } }] },
    isEither: true,
  },
  { path: '/v1/embeddings', body: { model: MODEL, input: ['hi'] } },
  { path: '/v1/audio/speech', body: { model: MODEL, input: 'hi', voice: 'alloy' } },
  { path: '/v1/moderations', body: { model: MODEL, input: 'hi' } },
  { path: '/v1/rerank', body: { model: MODEL, query: 'q', documents: ['d'] } },
  {
    path: '/v1/images/generations',
    body: { model: MODEL, prompt: 'p', n: 1, size: '1024x1024', quality: 'low' },
  },
  { path: '/v1/images/edits', body: { model: MODEL, prompt: 'p', image: IMAGE, n: 1 } },
  {
    path: '/v1/videos',
    body: {
      model: MODEL,
      prompt: 'p',
      seconds: 4,
      metadata: { resolution: '720p', settings: { duration: 4 } },
    },
    isEither: true,
  },
]

const NAMES = [...Object.values(DECISIVE).flat(), ...ROUTING_FIELDS]

/** Spellings that some server treats as the name itself; the last ones leave it unchanged. */
const RESPELL: Readonly<Record<string, (name: string) => string>> = {
  upper: name => name.toUpperCase(),
  title: name => name.replace(/(^|_)[a-z]/g, match => match.toUpperCase()),
  'last letter': name => name.slice(0, -1) + name.slice(-1).toUpperCase(),
  kelvin: name => name.replace('k', '\u212a'),
  'long s': name => name.replace('s', '\u017f'),
  'full width': name =>
    name.replace(/[a-z]/, letter => String.fromCodePoint((letter.codePointAt(0) ?? 0) + 0xfee0)),
  camel: name => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
  dashes: name => name.replaceAll('_', '-'),
  joined: name => name.replaceAll('_', ''),
  space: name => ` ${name}`,
  nul: name => `${name}\0`,
  itself: name => name,
  'itself again': name => name,
}

/** What a client would gain from: more expensive models, longer responses, more of them. */
const VALUES: readonly Tree[] = [
  'dear',
  90_000,
  9,
  true,
  '60',
  '1920x1080',
  readTree('{"type":"web_search"}'),
  readTree('["dear"]'),
]

export type Change = {
  readonly object: number
  readonly name: string
  readonly isPresent: boolean
  readonly how: string
  readonly value: Tree
  readonly place: number
  readonly isEscaped: boolean
}

const change: fc.Arbitrary<Change> = fc.record({
  object: fc.nat(50),
  name: fc.constantFrom(...NAMES),
  isPresent: fc.boolean(),
  how: fc.constantFrom(...Object.keys(RESPELL)),
  value: fc.constantFrom(...VALUES),
  place: fc.nat(20),
  isEscaped: fc.boolean(),
})

const isObject = (tree: Tree): tree is Written =>
  typeof tree === 'object' && tree !== null && 'members' in tree

/** Where client data starts: nothing inside is a field. */
const OWN_WORDS: ReadonlySet<string> = new Set(['parameters'])

/** The objects of a request in which a member is a field. */
function objectsIn(tree: Tree): readonly Written[] {
  if (Array.isArray(tree)) return tree.flatMap(objectsIn)
  if (!isObject(tree)) return []
  return [tree, ...tree.members.flatMap(([name, value]) => (OWN_WORDS.has(name) ? [] : objectsIn(value)))]
}

const escaped = (name: string) =>
  [...name].map(letter => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')

type Marked = { readonly members: [name: string, value: Tree, isEscaped?: boolean][] }

function write(tree: Tree): string {
  if (Array.isArray(tree)) return `[${tree.map(write).join(',')}]`
  if (!isObject(tree)) return JSON.stringify(tree)
  const members = (tree as unknown as Marked).members.map(([name, value, isEscaped]) => {
    const key = isEscaped ? `"${escaped(name)}"` : JSON.stringify(name)
    return `${key}:${write(value)}`
  })
  return `{${members.join(',')}}`
}

/** The text of a request with an additional member for each change. */
export function hostileText({ body }: GoodRequest, changes: readonly Change[]): string {
  const tree = readTree(JSON.stringify(body))
  for (const { object, name, isPresent, how, value, place, isEscaped } of changes) {
    const objects = objectsIn(tree)
    const { members } = objects[object % objects.length] as unknown as Marked
    const [existingName = name] = members[place % Math.max(1, members.length)] ?? []
    const respelledName = RESPELL[how]?.(isPresent ? existingName : name) ?? name
    members.splice(place % (members.length + 1), 0, [respelledName, structuredClone(value), isEscaped])
  }
  return write(tree)
}

/** A request of any operation, written by a client that wants servers to read it differently. */
export const hostileRequest = fc
  .record({ good: fc.constantFrom(...GOOD_REQUESTS), changes: fc.array(change, { maxLength: 3 }) })
  .map(({ good, changes }) => ({ good, text: hostileText(good, changes) }))

const camelOf = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

const isOwnWords = (name: string, path: string) =>
  path !== '/v1/videos' && ['metadata', 'documents', 'query', 'data'].includes(name)

/** The fields that a server of this format knows, each with its accepted names. */
export const fieldsOf = ({ isEither, path }: GoodRequest): readonly Field[] =>
  NAMES.map(name => ({
    names: isEither ? [name, camelOf(name)] : [name],
    isOwnWords: isOwnWords(name, path) || name === 'input' || name === 'output',
  }))

/** A valid form; its sender adds the file. */
export const GOOD_FORMS: readonly GoodRequest[] = [
  { path: '/v1/audio/transcriptions', body: { model: MODEL, language: 'en' } },
  { path: '/v1/audio/translations', body: { model: MODEL } },
  { path: '/v1/images/edits', body: { model: MODEL, prompt: 'p', n: '1', size: '1024x1024' } },
  {
    path: '/v1/videos',
    body: { model: MODEL, prompt: 'p', seconds: '4', 'metadata[style]': 'noir' },
    isEither: true,
  },
]

const inMetadata = (name: string, isInside: boolean) => (isInside ? `metadata[${name}]` : name)

/** The fields of a form, with an additional one for each change. */
export const hostileForm = fc
  .record({ good: fc.constantFrom(...GOOD_FORMS), changes: fc.array(change, { maxLength: 3 }) })
  .map(({ good, changes }) => {
    const fields = Object.entries(good.body) as [string, string][]
    for (const { name, isPresent, how, value, place, isEscaped } of changes) {
      const [existingName = name] = fields[place % fields.length] ?? []
      const respelledName = inMetadata(
        RESPELL[how]?.(isPresent ? existingName : name) ?? name,
        isEscaped && good.isEither === true,
      )
      // A form field name has no NUL: senders truncate or refuse it.
      if (!respelledName.includes('\0'))
        fields.splice(place % (fields.length + 1), 0, [respelledName, write(value)])
    }
    return { good, fields }
  })
