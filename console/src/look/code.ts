import { COMMON_SDK } from '../../../src/manage/contract/constants.ts'
import { publicAddress } from '../api/base-path.ts'

/** A request to `/v1`, to be shown as code. */
export type ApiCall = {
  readonly path: string
  readonly apiKey: string
  readonly body: Readonly<Record<string, unknown>>
  /** Name of an uploaded file. The request is multipart then. */
  readonly file?: string | undefined
  /** The response is a binary file, saved under this name. */
  readonly saves?: string | undefined
}

const urlOf = ({ path }: ApiCall) => `${publicAddress}${path}`
const fieldsOf = ({ body }: ApiCall) =>
  Object.entries(body).flatMap(([name, value]) =>
    (Array.isArray(value) ? value.map(each => [`${name}[]`, each]) : [[name, value]]).map(
      ([key, each]) => [String(key), String(each)] as const,
    ),
  )
/** Escapes single quotes for a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** A JSON value as a Python literal. */
function python(value: unknown): string {
  if (value === null || value === undefined) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`
  if (typeof value !== 'object') return JSON.stringify(value)
  const fields = Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${python(each)}`)
  return `{${fields.join(', ')}}`
}

const CHAT = '/v1/chat/completions'

function curl(call: ApiCall): string {
  const { apiKey, body, file, saves } = call
  const key = `-H 'Authorization: Bearer ${apiKey}'`
  const parts = file
    ? [key, ...fieldsOf(call).map(([name, value]) => `-F ${quoted(`${name}=${value}`)}`), `-F file=@${file}`]
    : [`${key} -H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`]
  return [`curl ${urlOf(call)}${saves ? ` -o ${saves}` : ''}`, ...parts].join(' \\\n  ')
}

function pythonHttp(call: ApiCall): string {
  const { apiKey, body, file, saves, path } = call
  const sent = file
    ? [
        `    data=${python(Object.fromEntries(fieldsOf(call)))},`,
        `    files={"file": open(${JSON.stringify(file)}, "rb")},`,
      ]
    : [`    json=${python(body)},`]
  const told = saves
    ? `open(${JSON.stringify(saves)}, "wb").write(answer.content)`
    : path === CHAT
      ? 'print(answer.json()["choices"][0]["message"]["content"])'
      : 'print(answer.json())'
  return [
    'import requests',
    '',
    'answer = requests.post(',
    `    "${urlOf(call)}",`,
    `    headers={"Authorization": "Bearer ${apiKey}"},`,
    ...sent,
    ')',
    told,
  ].join('\n')
}

function node(call: ApiCall): string {
  const { apiKey, body, file, saves, path } = call
  const form = file
    ? [
        'const form = new FormData()',
        ...fieldsOf(call).map(([name, value]) => `form.append('${name}', ${JSON.stringify(value)})`),
        `form.append('file', await (await import('node:fs')).openAsBlob('${file}'), '${file}')`,
      ]
    : []
  const sent = file
    ? [`  headers: { authorization: 'Bearer ${apiKey}' },`, '  body: form,']
    : [
        `  headers: { authorization: 'Bearer ${apiKey}', 'content-type': 'application/json' },`,
        `  body: JSON.stringify(${JSON.stringify(body)}),`,
      ]
  const told = saves
    ? `await (await import('node:fs/promises')).writeFile('${saves}', await answer.bytes())`
    : path === CHAT
      ? 'console.log((await answer.json()).choices[0].message.content)'
      : 'console.log(await answer.json())'
  return [
    ...form,
    `const answer = await fetch('${urlOf(call)}', {`,
    "  method: 'POST',",
    ...sent,
    '})',
    told,
  ].join('\n')
}

/** What the common SDK calls it; where it has no name for it, plain HTTP is all there is. */
const METHODS: Readonly<Record<string, string>> = {
  [CHAT]: 'chat.completions.create',
  '/v1/images/generations': 'images.generate',
  '/v1/audio/speech': 'audio.speech.create',
  '/v1/audio/transcriptions': 'audio.transcriptions.create',
  '/v1/audio/translations': 'audio.translations.create',
  '/v1/moderations': 'moderations.create',
  '/v1/videos': 'videos.create',
}

function sdk(call: ApiCall): string | undefined {
  const { apiKey, body, file, saves, path } = call
  const method = METHODS[path]
  if (method === undefined) return undefined
  const given = [
    ...Object.entries(body).map(([name, value]) => `${name}=${python(value)}`),
    ...(file ? [`file=open(${JSON.stringify(file)}, "rb")`] : []),
  ]
  const told = saves
    ? `answer.write_to_file(${JSON.stringify(saves)})`
    : path === CHAT && body.stream === true
      ? 'for chunk in answer:\n    print(chunk.choices[0].delta.content if chunk.choices else "", end="")'
      : 'print(answer)'
  return [
    `from ${COMMON_SDK.package} import ${COMMON_SDK.client}`,
    '',
    `client = ${COMMON_SDK.client}(base_url="${publicAddress}/v1", api_key="${apiKey}")`,
    `answer = client.${method}(`,
    ...given.map(line => `    ${line},`),
    ')',
    told,
  ].join('\n')
}

/** Ready to run as they stand, in the ways people ask. */
export const SNIPPETS = { curl, Python: pythonHttp, Node: node, SDK: sdk } as const satisfies Record<
  string,
  (call: ApiCall) => string | undefined
>
export type SnippetName = keyof typeof SNIPPETS
