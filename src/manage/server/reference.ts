import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod'
import type { Deps } from './deps.ts'

/** Chapters of the reference, in reading order; each holds the paths that begin with one of its words. */
const CHAPTERS = [
  {
    name: 'Tokens',
    words: ['token'],
    description: 'The `sk-` credentials of applications: always the caller’s own.',
  },
  { name: 'Channels', words: ['channel'], description: 'Connections to providers. Admin or Root.' },
  {
    name: 'Aliases',
    words: ['alias'],
    description: 'Names of your own for any model on any channel. Admin or Root.',
  },
  {
    name: 'Users',
    words: ['user'],
    description: 'Your account, signing in, access tokens; and everybody’s, for administrators.',
  },
  { name: 'Prices', words: ['price', 'pricing'], description: 'What models cost, and the versions of that.' },
  { name: 'Logs and usage', words: ['log', 'usage'], description: 'What was used, by whom, for how much.' },
  {
    name: 'Ledger and routing',
    words: ['ledger', 'route'],
    description: 'Whether the books hold, what is in doubt, how a request would go.',
  },
  {
    name: 'Videos and playground',
    words: ['video', 'playground'],
    description: 'Video jobs with what they cost, and the relay for whoever is signed in.',
  },
  {
    name: 'Settings',
    words: ['setting', 'option'],
    description: 'What Root can change while the gateway runs.',
  },
  { name: 'Audit', words: ['audit'], description: 'Who did what, in a chain that shows every change.' },
  {
    name: 'Status',
    words: ['status', 'setup', 'notice', 'group'],
    description: 'What anybody may know of this gateway.',
  },
] as const

const OTHER = { name: 'Billing, common form', description: 'A token’s balance as other gateways tell it.' }

export function tagOf(path: string): string {
  const [, family, word] = path.split('/')
  const chapter = CHAPTERS.find(({ words }) => family === 'api' && words.some(each => each === word))
  return (chapter ?? OTHER).name
}

const DESCRIPTION = `Tokens, channels, users and prices of this gateway.

Send a system access token: \`Authorization: Bearer sat-…\`. Success is \`{"success": true, "message": "", "data": …}\`;
failure carries a real status, a stable \`code\`, a \`message\`, and for bad input \`errors\` by field. Lists take \`p\` and
\`page_size\`. Times are Unix seconds; money is in quota units, 500 000 to the US dollar. Writes take an
\`Idempotency-Key\` and can then be repeated safely for a day.`

const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 32"><text x="0" y="24" font-family="system-ui, sans-serif" font-size="24" font-weight="700" fill="#fff">Sluice</text></svg>`

/** The document has one address here; a box to load another only confuses. */
const STYLE = `
.swagger-ui .topbar .download-url-wrapper { display: none }
.swagger-ui .topbar { background: #0b3a4a; padding: 6px 0 }
.swagger-ui .info { margin: 28px 0 }
.swagger-ui .info .title small pre { font-size: 11px }
.swagger-ui .scheme-container { padding: 16px 0 }
`

/** The API's document, made from the contract, and the page to read and try it: all served from here. */
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
    indexPrefix: basePath,
    logo: { type: 'image/svg+xml', content: Buffer.from(LOGO), href: `${basePath}/` },
    theme: { title: 'Sluice API', css: [{ filename: 'sluice.css', content: STYLE }] },
    uiConfig: { docExpansion: 'none', tryItOutEnabled: true },
  })
}
