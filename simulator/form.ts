import type { IncomingHttpHeaders } from 'node:http'
import { ProviderError } from './provider-error.ts'

export type UploadedFile = { readonly name: string; readonly type: string; readonly bytes: Buffer }
export type MultipartForm = {
  readonly fields: ReadonlyMap<string, readonly string[]>
  readonly files: ReadonlyMap<string, readonly UploadedFile[]>
}

const END_OF_HEAD = Buffer.from('\r\n\r\n')

/** A minimal reader of multipart bodies. */
export function readForm(bytes: Buffer, headers: IncomingHttpHeaders): MultipartForm {
  const [, boundary] = /boundary=("?)([^";]+)\1/i.exec(headers['content-type'] ?? '')?.slice(1) ?? []
  if (boundary === undefined) throw new ProviderError('bad_json', 'The body must be multipart/form-data.')
  const mark = Buffer.from(`--${boundary}`)
  const fields = new Map<string, string[]>()
  const files = new Map<string, UploadedFile[]>()
  let start = bytes.indexOf(mark)
  for (;;) {
    const next = bytes.indexOf(mark, start + mark.length)
    if (start < 0 || next < 0) break
    take(bytes.subarray(start + mark.length + 2, next - 2))
    start = next
  }
  return { fields, files }

  function take(part: Buffer): void {
    const at = part.indexOf(END_OF_HEAD)
    const head = part.toString('utf8', 0, at)
    const content = part.subarray(at + END_OF_HEAD.length)
    const name = /[; ]name="([^"]*)"/i.exec(head)?.[1] ?? ''
    const fileName = /filename="([^"]*)"/i.exec(head)?.[1]
    if (fileName === undefined) fields.set(name, [...(fields.get(name) ?? []), content.toString('utf8')])
    else {
      const type = /content-type: *([^\r\n]+)/i.exec(head)?.[1] ?? ''
      files.set(name, [...(files.get(name) ?? []), { name: fileName, type, bytes: content }])
    }
  }
}

export const fieldIn = ({ fields }: MultipartForm, name: string): string | undefined =>
  fields.get(name)?.at(-1)
