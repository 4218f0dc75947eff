import { randomBytes } from 'node:crypto'
import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import statics, { type SendOptions } from '@fastify/static'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Deps } from './deps.ts'
import { noSuchRoute } from './routes.ts'

const YEAR_MS = 31_536_000_000

/** Scripts only from this origin, styles only from it or with this response's nonce, nothing from another host. */
const policy = (nonce: string) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data: blob:",
    "media-src 'self' blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
  ].join('; ')

/** The page while the console is being built. */
const waitingPage = (basePath: string, nonce: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="2">
<title>Sluice</title>
<style nonce="${nonce}">
  :root { color-scheme: light dark }
  body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px; background: light-dark(#f5f7f5, #0c1113); color: light-dark(#13201d, #e7eeeb); font: 14px/20px system-ui, sans-serif }
  h1 { margin: 0; font-size: 18px }
  a { color: light-dark(#0a6a7c, #54bacd) }
</style>
</head>
<body>
<main>
<h1>Sluice</h1>
<p>The console is being built. This takes a few seconds, or up to a minute if its packages must be downloaded first. This page then opens it.</p>
<p>If it does not, the gateway’s log says why.</p>
<p>The gateway itself is running: <a href="${basePath}/docs">API reference</a>.</p>
</main>
</body>
</html>
`

/** The first path segments of the console's pages. */
const PAGES =
  /^\/(sign-in|start|usage|videos|playground|tokens|models|channels|prices|canaries|users|alerts|audit|history|nodes|ledger|settings|me)(\/|\?|$)/
/** Paths of programs. If they are unknown, their errors are JSON, for browsers too. */
const PROGRAMS = /^\/(api|v1|v1beta|dashboard|docs|assets|metrics)(\/|\?|$)/

const FILES = /^\/(assets\/|theme\.js|icon\.svg)/

/** Whether a request is for a file of the console. A page causes many of them. */
export const isConsoleFile = ({ url }: Pick<FastifyRequest, 'url'>) => FILES.test(url)

type Navigation = Pick<FastifyRequest, 'method' | 'url' | 'headers'>

const isNavigation = ({ method, headers }: Navigation) =>
  method === 'GET' && (headers.accept ?? '').includes('text/html')

/** The status of the console's page if a browser opens it at this path: 404 if it has no such page, but says so itself. */
export function pageStatus(request: Navigation): 200 | 404 | undefined {
  if (!isNavigation(request) || PROGRAMS.test(request.url)) return undefined
  return PAGES.test(request.url) ? 200 : 404
}

/** A path that leaves its folder, with either kind of slash, or contains a NUL. */
const PATH_TRAVERSAL = /(?:^|[/\\])\.\.(?:[/\\]|$)|\0/

const readPage = (folder: string) =>
  readFile(join(folder, 'index.html'), 'utf8').catch(error => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })

async function folderWith(file: string, folders: readonly string[]): Promise<string | undefined> {
  for (const folder of folders) {
    const isThere = await access(join(folder, file)).then(
      () => true,
      () => false,
    )
    if (isThere) return folder
  }
  return undefined
}

type FileError = Error & { readonly code?: string; readonly statusCode?: number }

/**
 * Responds with an uncached 404 if a file is removed while it is being sent, or if the library refuses its name. Without
 * this, the 404 would have the caching headers of the file.
 */
function errorHandler(error: FileError, request: FastifyRequest, reply: FastifyReply): never {
  const isRefused = error.statusCode === 400 || error.statusCode === 403
  if (error.code !== 'ENOENT' && !isRefused) throw error
  for (const name of ['cache-control', 'content-encoding', 'etag', 'last-modified', 'accept-ranges']) {
    reply.removeHeader(name)
    reply.raw.removeHeader(name)
  }
  throw noSuchRoute(request)
}

/** The console: one page for all its paths, and the files of that page. */
export async function serveConsole(
  app: FastifyInstance,
  { basePath, consoleBuilds }: Pick<Deps, 'basePath' | 'consoleBuilds'>,
) {
  await app.register(statics, { serve: false, preCompressed: true })

  async function sendPage(reply: FastifyReply, status = 200): Promise<FastifyReply> {
    const nonce = randomBytes(16).toString('base64')
    const [folder] = await consoleBuilds()
    const html = folder === undefined ? undefined : await readPage(folder)
    const page = html
      // The base path is not known at build time.
      ?.replaceAll('"./', `"${basePath}/`)
      .replace('%BASE_PATH%', basePath)
      .replaceAll('%NONCE%', nonce)
    return reply
      .status(status)
      .header('content-security-policy', policy(nonce))
      .header('cache-control', 'no-cache')
      .type('text/html; charset=utf-8')
      .send(page ?? waitingPage(basePath, nonce))
  }

  async function sendFile(reply: FastifyReply, file: string, caching: SendOptions): Promise<FastifyReply> {
    // Checked before any disk access: a response must not reveal whether a file exists elsewhere.
    if (PATH_TRAVERSAL.test(file)) throw noSuchRoute(reply.request)
    const folders = await consoleBuilds()
    const folder = (await folderWith(file, folders)) ?? folders[0]
    if (folder === undefined) throw noSuchRoute(reply.request)
    return reply.sendFile(file, folder, caching)
  }

  const hide = { schema: { hide: true } }
  // Health checks of proxies use HEAD.
  app.get('/', { ...hide, exposeHeadRoute: true }, (_request, reply) => sendPage(reply))
  // Names contain a hash of the content, so a fetched file never has to be requested again.
  const file = { ...hide, errorHandler }
  app.get<{ Params: { '*': string } }>('/assets/*', file, (request, reply) =>
    sendFile(reply, `assets/${request.params['*']}`, { maxAge: YEAR_MS, immutable: true }),
  )
  for (const name of ['theme.js', 'icon.svg'])
    app.get(`/${name}`, file, (_request, reply) =>
      sendFile(reply.header('cache-control', 'no-cache'), name, { cacheControl: false }),
    )
  return { sendPage }
}
