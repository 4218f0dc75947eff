import type { FastifyInstance } from 'fastify'

/** What a person sees who opens the gateway's address in a browser. */
const page = (basePath: string, version: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice</title>
<style>
  :root { color-scheme: light dark; --ink: #17212b; --soft: #5a6b7b; --paper: #f6f8fa; --card: #fff; --line: #dde4ea; --accent: #0b6e8f }
  @media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #93a4b3; --paper: #0d1419; --card: #141d24; --line: #24313b; --accent: #5cc2e0 } }
  * { box-sizing: border-box }
  body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
  main { width: min(34rem, 100%); background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 2.2rem }
  h1 { margin: 0; font-size: 1.7rem; letter-spacing: -.02em }
  p { margin: .5rem 0 1.4rem; color: var(--soft) }
  ul { list-style: none; margin: 0; padding: 0; display: grid; gap: .6rem }
  a { display: flex; justify-content: space-between; gap: 1rem; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: 9px; color: inherit; text-decoration: none }
  a:hover, a:focus-visible { border-color: var(--accent); outline: none }
  a span:last-child { color: var(--accent); font-family: ui-monospace, monospace; font-size: .9em }
  footer { margin-top: 1.4rem; color: var(--soft); font-size: .85rem }
</style>
</head>
<body>
<main>
<h1>Sluice</h1>
<p>One address for every AI provider, one token for every application, and books that are right.</p>
<ul>
<li><a href="${basePath}/docs"><span>Management API reference</span><span>/docs</span></a></li>
<li><a href="${basePath}/api/openapi.json"><span>OpenAPI document</span><span>/api/openapi.json</span></a></li>
<li><a href="${basePath}/readyz"><span>Readiness</span><span>/readyz</span></a></li>
</ul>
<footer>Version ${version}</footer>
</main>
</body>
</html>
`

export function serveHome(app: FastifyInstance, basePath: string, version: string): void {
  const html = page(basePath, version)
  app.get('/', { schema: { hide: true } }, async (_request, reply) =>
    reply.type('text/html; charset=utf-8').send(html),
  )
}
