import { EventStreamCodec } from '@smithy/eventstream-codec'
import { startSimulator } from '../../simulator/server.ts'
import { type CorpusLine, frameOf } from '../support/corpus.ts'
import { QUESTIONS, type SimulatedQuestion } from './questions.ts'

const NOW_MS = 1_767_312_000_000

const codec = new EventStreamCodec(
  bytes => Buffer.from(bytes as Uint8Array).toString(),
  text => Buffer.from(text),
)

/** The files that the simulator writes, by their path in this folder. Every run gives the same ones. */
export async function simulateCorpus(): Promise<ReadonlyMap<string, string>> {
  const simulator = await startSimulator({ now: () => NOW_MS })
  try {
    const files = new Map<string, string>()
    for (const question of QUESTIONS) {
      const path = `${question.folder}/simulated-${question.name}.jsonl`
      files.set(path, await ask(simulator.url, question))
    }
    return files
  } finally {
    await simulator.close()
  }
}

async function ask(url: string, question: SimulatedQuestion): Promise<string> {
  const { folder, about, vendor, path, headers, body, expected } = question
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer corpus-key', ...headers },
    body: JSON.stringify(body),
  })
  const bytes = Buffer.from(await response.arrayBuffer())
  const lines: CorpusLine[] = [
    { about, ...(vendor && { vendor }) },
    { request: body },
    ...linesOf(folder, response, bytes),
    ...(expected === undefined ? [] : [{ expected }]),
  ]
  // Ids are new in every run of the simulator.
  const id = response.headers.get('x-request-id')?.replace('req_', '') ?? ''
  return lines.map(line => `${JSON.stringify(line).replaceAll(id, 'c0ffee0001')}\n`).join('')
}

function linesOf(folder: string, { status, headers }: Response, bytes: Buffer): readonly CorpusLine[] {
  const type = headers.get('content-type') ?? ''
  if (type === 'application/json') {
    const answer = JSON.parse(bytes.toString())
    return [{ ...(status !== 200 && { status }), answer }]
  }
  return folder === 'bedrock' ? binaryLines(bytes) : textLines(folder, bytes)
}

/** The reverse of reading a stream. What the format's frame would not restore stays raw. */
function textLines(folder: string, bytes: Buffer): readonly CorpusLine[] {
  const border = folder === 'ollama' ? /(?<=\n)/ : /(?<=\r?\n\r?\n)/
  return bytes
    .toString()
    .split(border)
    .map(raw => {
      const json = /^(?:data: )?(\{.*\})\r?$/m.exec(raw)?.[1]
      const event = json === undefined ? undefined : JSON.parse(json)
      return event !== undefined && frameOf(folder)(event) === raw ? { event } : { raw }
    })
}

function binaryLines(bytes: Buffer): readonly CorpusLine[] {
  const lines: CorpusLine[] = []
  for (let at = 0; at < bytes.length; at += bytes.readUInt32BE(at)) {
    const { headers, body } = codec.decode(bytes.subarray(at, at + bytes.readUInt32BE(at)))
    const kind = headers[':message-type']?.value === 'exception' ? 'exception' : 'event'
    const name = String(headers[`:${kind}-type`]?.value)
    lines.push({ [kind]: { [name]: JSON.parse(Buffer.from(body).toString()) } })
  }
  return lines
}
