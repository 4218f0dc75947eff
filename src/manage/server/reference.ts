import { fileURLToPath } from 'node:url'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod'
import { REFERENCE_FILES } from '../../host/program-file.ts'
import type { Deps } from './deps.ts'

/** Chapters of the reference, in reading order. Each contains the paths that begin with one of its words. */
const CHAPTERS = [
  {
    name: 'Tokens',
    words: ['token'],
    description: 'The caller’s own `sk-` credentials for applications.',
  },
  { name: 'Channels', words: ['channel'], description: 'Connections to providers. Admin or Root.' },
  {
    name: 'Aliases',
    words: ['alias'],
    description: 'Alternative names for models. Admin or Root.',
  },
  {
    name: 'Users',
    words: ['user'],
    description: 'Your account, sign-in and access tokens; all users, for administrators.',
  },
  { name: 'Prices', words: ['price', 'pricing'], description: 'Prices of models and their versions.' },
  { name: 'Logs and usage', words: ['log', 'usage'], description: 'Request logs and usage figures.' },
  {
    name: 'Canaries',
    words: ['canary'],
    description: 'Changes that are tried on a part of the requests, and shadow prices. Admin or Root.',
  },
  {
    name: 'Ledger and routing',
    words: ['ledger', 'route'],
    description: 'Verification of the ledger, unresolved charges, and the route of a request.',
  },
  {
    name: 'Videos and playground',
    words: ['video', 'playground'],
    description: 'Video jobs with their costs, and relay calls of signed-in users.',
  },
  {
    name: 'Settings',
    words: ['setting', 'option'],
    description: 'Settings that Root can change while the gateway runs.',
  },
  {
    name: 'Alerts',
    words: ['alert'],
    description: 'Alert rules, targets, and the messages to them. Admin or Root.',
  },
  {
    name: 'Nodes',
    words: ['node'],
    description: 'The relay processes that share the database. Admin or Root.',
  },
  { name: 'Audit', words: ['audit'], description: 'Audit records in a tamper-evident chain.' },
  {
    name: 'Status',
    words: ['status', 'setup', 'notice', 'group'],
    description: 'Public information about this gateway.',
  },
] as const

const OTHER = {
  name: 'Billing, common form',
  description: 'The balance of a token in the form of other gateways.',
}

export function tagOf(path: string): string {
  const [, family, word] = path.split('/')
  const chapter = CHAPTERS.find(({ words }) => family === 'api' && words.some(each => each === word))
  return (chapter ?? OTHER).name
}

const DESCRIPTION = `Tokens, channels, users and prices of this gateway.

Send a system access token: \`Authorization: Bearer sat-…\`. Success is \`{"success": true, "message": "", "data": …}\`;
an error has an HTTP status, a stable \`code\`, a \`message\`, and for invalid input \`errors\` by field. Lists take \`p\` and
\`page_size\`. Times are Unix seconds; money is in quota units, 500 000 to the US dollar. Writes accept an
\`Idempotency-Key\` and can then be repeated safely for a day.`

const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 32"><text x="0" y="24" font-family="system-ui, sans-serif" font-size="24" font-weight="700" fill="#fff">Sluice</text></svg>`

/** There is only one document, so the box to load another is hidden. */
const STYLE = `
.swagger-ui .topbar .download-url-wrapper { display: none }
.swagger-ui .topbar { background: #0b3a4a; padding: 6px 0 }
.swagger-ui .info { margin: 28px 0 }
.swagger-ui .info .title small pre { font-size: 11px }
.swagger-ui .scheme-container { padding: 16px 0 }
`

/** Serves the OpenAPI document, generated from the contract, and the page to read and try it. */
export async function serveReference(
  app: FastifyInstance,
  { basePath, version }: Pick<Deps, 'basePath' | 'version'>,
) {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Sluice management API', version, description: DESCRIPTION },
      servers: [{ url: basePath === '' ? '/' : basePath }],
      tags: [...CHAPTERS, OTHER].map(({ name, description }) => ({ name, description })),
      components: {
        securitySchemes: {
          accessToken: { type: 'http', scheme: 'bearer', description: 'A system access token (sat-…)' },
          session: { type: 'apiKey', in: 'cookie', name: 'sluice_session' },
        },
      },
      security: [{ accessToken: [] }, { session: [] }],
    },
    transform: jsonSchemaTransform,
    transformObject: jsonSchemaTransformObject,
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    ...(REFERENCE_FILES && { baseDir: fileURLToPath(REFERENCE_FILES) }),
    indexPrefix: basePath,
    logo: { type: 'image/svg+xml', content: Buffer.from(LOGO), href: `${basePath}/` },
    theme: { title: 'Sluice API', css: [{ filename: 'sluice.css', content: STYLE }] },
    uiConfig: { docExpansion: 'none', tryItOutEnabled: true },
  })
}
