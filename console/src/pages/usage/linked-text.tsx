import { Link } from '@tanstack/react-router'
import { Fragment, type ReactNode } from 'react'
import { useIsAdmin, useSelf } from '../../api/self.ts'
import { momentToSecond } from '../../look/format.ts'
import { useGatewayText } from '../../texts/gateway-text.tsx'

/** What a sentence of the gateway refers to: an object with its id, a request, a moment. */
const REFERENCE =
  /\b(channel|token|user) "(.+?)" \(#(\d+)\)|(req_[0-9A-Z]{26})|(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/gi
/** Stands for a reference while the sentence is translated. No text of the gateway has these characters. */
const MARK = /\uE000(\d+)\uE001/

/** A sentence of the gateway, in the language and time zone of the reader, with links. */
export function LinkedText({ text, ownerId }: { readonly text: string; readonly ownerId: number }) {
  const self = useSelf()
  const isAdmin = useIsAdmin()
  const textOf = useGatewayText()
  const links: ReactNode[] = []
  const mark = (link: ReactNode) => `\uE000${links.push(link) - 1}\uE001`

  function objectLink(kind: string, name: string, id: string): ReactNode {
    if (kind === 'channel')
      return (
        <Link to="/channels/$id" params={{ id }}>
          {name}
        </Link>
      )
    if (kind === 'user' && isAdmin)
      return (
        <Link to="/users/$id" params={{ id }}>
          {name}
        </Link>
      )
    if (kind === 'token' && ownerId === self.id)
      return (
        <Link to="/tokens/$id" params={{ id }}>
          {name}
        </Link>
      )
    return kind === 'token' ? (
      <Link to="/usage" search={{ token_id: Number(id) }}>
        {name}
      </Link>
    ) : (
      name
    )
  }

  const marked = text.replace(
    REFERENCE,
    (whole, kind?: string, name?: string, id?: string, requestId?: string, day?: string, time?: string) => {
      if (kind && name && id) return `${kind} ${mark(objectLink(kind.toLowerCase(), name, id))}`
      if (requestId)
        return mark(
          <Link to="/usage/$requestId" params={{ requestId }} className="font-mono text-code break-all">
            {requestId}
          </Link>,
        )
      return mark(day && time ? momentToSecond(Date.parse(`${day}T${time}Z`) / 1000) : whole)
    },
  )
  const words = textOf(marked)
  return (
    <span lang={words === marked ? 'en' : undefined}>
      {words.split(MARK).map((part, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a sentence are known by their order
        <Fragment key={index}>{index % 2 === 1 ? links[Number(part)] : part}</Fragment>
      ))}
    </span>
  )
}
