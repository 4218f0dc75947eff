import type { Unsigned } from './provider.ts'

export type AwsKey = {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** For temporary credentials. */
  readonly sessionToken?: string
}

/**
 * The signature headers of a request to AWS. Only host and content type are signed, so that a proxy that changes other
 * headers does not break the signature. The signer encodes the path once more than the request does, as AWS requires.
 */
export async function signAws(
  credentials: AwsKey,
  { service, region }: { readonly service: string; readonly region: string },
  { method, url, headers, body, at }: Unsigned,
): Promise<Readonly<Record<string, string>>> {
  // Loaded on demand: most gateways have no such channel.
  const [{ Sha256 }, { SignatureV4 }] = await Promise.all([
    import('@aws-crypto/sha256-js'),
    import('@smithy/signature-v4'),
  ])
  const signer = new SignatureV4({ credentials, region, service, sha256: Sha256 })
  const type = headers['content-type']
  const signed = await signer.sign(
    {
      method,
      protocol: url.protocol,
      hostname: url.hostname,
      path: url.pathname,
      query: queryOf(url.searchParams),
      headers: { host: url.host, ...(type !== undefined && { 'content-type': type }) },
      body,
    },
    { signingDate: at },
  )
  const { host: _, 'content-type': __, ...signature } = signed.headers
  return signature
}

function queryOf(params: URLSearchParams): Record<string, string[]> {
  return Object.fromEntries([...params.keys()].map(name => [name, params.getAll(name)]))
}
