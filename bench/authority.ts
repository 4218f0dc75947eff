import { join } from 'node:path'
import { run } from './process.ts'

/** A certificate for the providers of a bench, and its key, as files. */
export type Authority = { readonly cert: string; readonly key: string }

/** A self-signed certificate for 127.0.0.1, by the program `openssl`. */
export async function createAuthority(folder: string): Promise<Authority> {
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2']
  await run('openssl', ['req', '-x509', ...curve, ...subject, '-keyout', key, '-out', cert], {
    mostMs: 30_000,
  })
  return { cert, key }
}
