import { COMMON_SDK, MESSAGES_SDK } from '../../../src/manage/contract/constants.ts'
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

/** The environment variable from which the examples read the key. */
export const KEY_NAME = 'SLUICE_API_KEY'
const CHAT = '/v1/chat/completions'

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

function curl(call: ApiCall): string {
  const { apiKey, body, file, saves } = call
  const key = `-H "Authorization: Bearer $${KEY_NAME}"`
  const parts = file
    ? [key, ...fieldsOf(call).map(([name, value]) => `-F ${quoted(`${name}=${value}`)}`), `-F file=@${file}`]
    : [`${key} -H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`]
  const command = [`curl ${urlOf(call)}${saves ? ` -o ${saves}` : ''}`, ...parts].join(' \\\n  ')
  return `export ${KEY_NAME}=${quoted(apiKey)}\n${command}`
}

/** How the SDK calls an endpoint, and which part of its response is worth printing. */
type SdkCall = { readonly method: string; readonly result: string }

/** Endpoints without a method in the SDK are called over plain HTTP. */
const SDK_CALLS: Readonly<Record<string, SdkCall>> = {
  [CHAT]: { method: 'chat.completions.create', result: 'choices[0].message.content' },
  '/v1/images/generations': { method: 'images.generate', result: 'data[0].url' },
  '/v1/audio/speech': { method: 'audio.speech.create', result: '' },
  '/v1/audio/transcriptions': { method: 'audio.transcriptions.create', result: 'text' },
  '/v1/audio/translations': { method: 'audio.translations.create', result: 'text' },
  '/v1/moderations': { method: 'moderations.create', result: 'results[0].flagged' },
  '/v1/videos': { method: 'videos.create', result: 'status' },
}

/** Formats that the SDK returns as a plain string. */
const TEXT_FORMATS = new Set(['text', 'srt', 'vtt'])

/** The expression to print; images come as base64 unless URLs were requested. */
function resultOf({ body }: ApiCall, { result }: SdkCall): string {
  if (TEXT_FORMATS.has(String(body.response_format))) return 'response'
  const isBase64 = result === 'data[0].url' && body.response_format !== 'url'
  return `response.${isBase64 ? 'data[0].b64_json' : result}`
}

const isStreamedChat = ({ path, body }: ApiCall) => path === CHAT && body.stream === true

function pythonSdk(call: ApiCall, sdk: SdkCall): string {
  const { body, file, saves } = call
  const parameters = [
    ...Object.entries(body).map(([name, value]) => `${name}=${python(value)}`),
    ...(file ? [`file=open(${JSON.stringify(file)}, "rb")`] : []),
  ]
  const output = saves
    ? `response.write_to_file(${JSON.stringify(saves)})`
    : isStreamedChat(call)
      ? 'for chunk in response:\n    print(chunk.choices[0].delta.content or "" if chunk.choices else "", end="")'
      : `print(${resultOf(call, sdk)})`
  return [
    'import os',
    `from ${COMMON_SDK.package} import ${COMMON_SDK.client}`,
    '',
    `client = ${COMMON_SDK.client}(`,
    `    base_url="${publicAddress}/v1",`,
    `    api_key=os.environ["${KEY_NAME}"],`,
    ')',
    `response = client.${sdk.method}(`,
    ...parameters.map(line => `    ${line},`),
    ')',
    output,
  ].join('\n')
}

function pythonHttp(call: ApiCall): string {
  return [
    'import os',
    'import requests',
    '',
    'response = requests.post(',
    `    "${urlOf(call)}",`,
    `    headers={"Authorization": f"Bearer {os.environ['${KEY_NAME}']}"},`,
    `    json=${python(call.body)},`,
    ')',
    'print(response.json())',
  ].join('\n')
}

function typescriptSdk(call: ApiCall, sdk: SdkCall): string {
  const { body, file, saves } = call
  const imports = [
    ...(file ? ["import { createReadStream } from 'node:fs'"] : []),
    ...(saves ? ["import { writeFile } from 'node:fs/promises'"] : []),
    `import ${COMMON_SDK.client} from '${COMMON_SDK.package}'`,
  ]
  const parameters = [
    ...Object.entries(body).map(([name, value]) => `${name}: ${JSON.stringify(value)}`),
    ...(file ? [`file: createReadStream('${file}')`] : []),
  ]
  const output = saves
    ? `await writeFile('${saves}', await response.bytes())`
    : isStreamedChat(call)
      ? "for await (const chunk of response) process.stdout.write(chunk.choices[0]?.delta.content ?? '')"
      : `console.log(${resultOf(call, sdk)})`
  return [
    ...imports,
    '',
    `const client = new ${COMMON_SDK.client}({`,
    `  baseURL: '${publicAddress}/v1',`,
    `  apiKey: process.env.${KEY_NAME},`,
    '})',
    `const response = await client.${sdk.method}({`,
    ...parameters.map(line => `  ${line},`),
    '})',
    output,
  ].join('\n')
}

function typescriptHttp(call: ApiCall): string {
  return [
    `const response = await fetch('${urlOf(call)}', {`,
    "  method: 'POST',",
    `  headers: { authorization: \`Bearer \${process.env.${KEY_NAME}}\`, 'content-type': 'application/json' },`,
    `  body: JSON.stringify(${JSON.stringify(call.body)}),`,
    '})',
    'console.log(await response.json())',
  ].join('\n')
}

type Writer = (call: ApiCall, sdk: SdkCall) => string
const withSdk =
  (sdkWriter: Writer, httpWriter: (call: ApiCall) => string) =>
  (call: ApiCall): string => {
    const sdk = SDK_CALLS[call.path]
    return sdk ? sdkWriter(call, sdk) : httpWriter(call)
  }

type ChatMessage = { readonly role: string; readonly content: unknown }
type ContentPart = {
  readonly type: string
  readonly text?: string
  readonly image_url?: { readonly url: string }
}

/** An image of a message: base64 from a data URL, or its address. */
function imageOf(url: string) {
  const [, type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? []
  const source = data === undefined ? { type: 'url', url } : { type: 'base64', media_type: type, data }
  return { type: 'image', source }
}

const partsOf = (content: unknown) =>
  Array.isArray(content)
    ? (content as ContentPart[]).map(part => (part.image_url ? imageOf(part.image_url.url) : part))
    : content

/** This format requires a limit of the answer. */
const MAX_TOKENS = 1024
/** Parameters that both formats have under the same name. */
const SHARED_PARAMETERS = ['temperature', 'top_p', 'stream'] as const

/** A chat with the SDK of the other format: the gateway translates, whichever provider serves the model. */
function messagesSdk({ body }: ApiCall): string {
  const messages = (body.messages ?? []) as readonly ChatMessage[]
  const system = messages.filter(({ role }) => role === 'system').map(({ content }) => content)
  const parameters = {
    model: body.model,
    max_tokens: body.max_tokens ?? MAX_TOKENS,
    ...(system.length > 0 && { system: system.join('\n') }),
    messages: messages
      .filter(({ role }) => role !== 'system')
      .map(({ role, content }) => ({ role, content: partsOf(content) })),
    ...Object.fromEntries(
      SHARED_PARAMETERS.flatMap(name => (body[name] === undefined ? [] : [[name, body[name]]])),
    ),
  }
  const output = body.stream
    ? 'for event in response:\n    if event.type == "content_block_delta" and event.delta.type == "text_delta":\n        print(event.delta.text, end="")'
    : 'print(next(block.text for block in response.content if block.type == "text"))'
  return [
    'import os',
    `from ${MESSAGES_SDK.package} import ${MESSAGES_SDK.client}`,
    '',
    `client = ${MESSAGES_SDK.client}(`,
    `    base_url="${publicAddress}",`,
    `    api_key=os.environ["${KEY_NAME}"],`,
    ')',
    'response = client.messages.create(',
    ...Object.entries(parameters).map(([name, value]) => `    ${name}=${python(value)},`),
    ')',
    output,
  ].join('\n')
}

/** Code examples, ready to run. Python and TypeScript use the SDK where it has a method for the endpoint. */
export const SNIPPETS = {
  curl,
  Python: withSdk(pythonSdk, pythonHttp),
  TypeScript: withSdk(typescriptSdk, typescriptHttp),
  [MESSAGES_SDK.client]: messagesSdk,
} as const satisfies Record<string, (call: ApiCall) => string>
export type SnippetName = keyof typeof SNIPPETS

/** The examples that exist for a request: the other format has chats only. */
export const snippetNames = ({ path }: Pick<ApiCall, 'path'>): readonly SnippetName[] =>
  (Object.keys(SNIPPETS) as SnippetName[]).filter(name => name !== MESSAGES_SDK.client || path === CHAT)
