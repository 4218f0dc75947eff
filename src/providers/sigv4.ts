import type { Unsigned } from './provider.ts'

export type AwsKey = {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Of keys that are lent for a while. */
  readonly sessionToken?: string
}

/**
 * Headers that prove a request to AWS. Of its own headers only host and type are signed: what a proxy adds or changes must
 * not break the proof. The path is counted encoded once more than the wire carries it, which the signer sees to.
 */
export async function signAws(
  credentials: AwsKey,
  { service, region }: { readonly service: string; readonly region: string },
  { method, url, headers, body, at }: Unsigned,
): Promise<Readonly<Record<string, string>>> {
  // Loaded with the first request that needs it: most gateways have no such channel.
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
  const { host: _, 'content-type': __, ...proof } = signed.headers
  return proof
}

function queryOf(params: URLSearchParams): Record<string, string[]> {
  return Object.fromEntries([...params.keys()].map(name => [name, params.getAll(name)]))
}
