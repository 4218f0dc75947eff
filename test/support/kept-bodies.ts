import type { KeptExchange } from '../../src/domain/body-log.ts'
import { maxPagedBytes, writePaged } from '../../src/domain/body-page.ts'
import { type BodySeal, bodyPlace, pagePlace } from '../../src/identity/body-seal.ts'
import type { BodyPageRow, BodyRow } from '../../src/store/engine/schema.ts'

type Texts = { readonly request_id: string; readonly request?: string; readonly answer?: string }
type Owner = { readonly user_id: number; readonly created_time: number }

const exchangeOf = ({ request = '{}', answer = '{}' }: Texts): KeptExchange => {
  const side = { type: 'application/json', is_truncated: false, is_masked: false }
  return {
    path: '/v1/chat/completions',
    model: 'gpt-4o',
    status: 200,
    request: { ...side, size: request.length, kept: request.length },
    answer: { ...side, size: answer.length, kept: answer.length },
  }
}

/** A page with the bodies of chats. */
export function pageOf(seal: BodySeal, owner: Owner, chats: readonly [Texts, ...Texts[]]): BodyPageRow {
  const exchanges = chats.map(chat => {
    const description = JSON.stringify({ ...exchangeOf(chat), request_id: chat.request_id, token_id: 0 })
    const texts = { description, request: chat.request ?? '{}', answer: chat.answer ?? '{}' }
    const bytes = Buffer.alloc(maxPagedBytes(texts))
    return bytes.subarray(0, writePaged(bytes, 0, texts))
  })
  const row = { id: chats[0].request_id, ...owner }
  const content = seal.seal(pagePlace(row), Buffer.concat(exchanges))
  const other_requests = JSON.stringify(chats.slice(1).map(({ request_id }) => request_id))
  return { ...row, size: content.length, other_requests, content }
}

/** The bodies of a chat as versions without pages store them. */
export function rowOf(seal: BodySeal, owner: Owner, chat: Texts): BodyRow {
  const { request_id, request = '{}', answer = '{}' } = chat
  const description = Buffer.from(JSON.stringify(exchangeOf(chat)))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(description.length)
  const content = seal.seal(
    bodyPlace(request_id),
    Buffer.concat([length, description, Buffer.from(request), Buffer.from(answer)]),
  )
  return { request_id, ...owner, token_id: 0, size: content.length, content }
}
