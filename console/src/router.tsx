import type { QueryClient } from '@tanstack/react-query'
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router'
import { basePath } from './api/base-path.ts'
import { ApiError } from './api/errors.ts'
import { selfQuery } from './api/self.ts'
import { readFlag, readText, readWhole } from './look/filters.tsx'
import { ErrorCard, Loading } from './look/states.tsx'
import { NotFound } from './pages/not-found.tsx'
import { readUsageFilters } from './pages/usage/usage-filters.ts'

type Context = { readonly client: QueryClient }

const root = createRootRouteWithContext<Context>()({
  component: Outlet,
  notFoundComponent: NotFound,
  errorComponent: ({ error, reset }) => <ErrorCard error={error} onRetry={reset} />,
})

type Raw = Record<string, unknown>
/** An unset filter stays in the result as undefined: without it, the router would take the invalid text of the URL. */
const optional = <Fields extends object>(fields: Fields): { [Name in keyof Fields]?: Fields[Name] } => fields
const listFields = ({ p, q }: Raw) => ({ p: readWhole(p), q: readText(q) })
const listSearch = (raw: Raw) => optional(listFields(raw))

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: ({ to }: Raw) => optional({ to: readText(to) }),
  component: lazyRouteComponent(() => import('./pages/sign-in.tsx'), 'SignIn'),
})

/** All pages except sign-in require a user, who is loaded before the first page renders. */
const shell = createRoute({
  getParentRoute: () => root,
  id: 'shell',
  component: lazyRouteComponent(() => import('./shell/shell.tsx'), 'Shell'),
  beforeLoad: async ({ context, location }) => {
    try {
      await context.client.ensureQueryData(selfQuery)
    } catch (error) {
      if (error instanceof ApiError && error.status === 401)
        throw redirect({ to: '/sign-in', search: location.pathname === '/' ? {} : { to: location.href } })
      throw error
    }
  },
})

const overview = createRoute({
  getParentRoute: () => shell,
  path: '/',
  validateSearch: (raw: Raw) =>
    optional({
      range: readText(raw.range),
      until: readWhole(raw.until),
      from: readWhole(raw.from),
      compare: readText(raw.compare),
      model: readText(raw.model),
      token_id: readWhole(raw.token_id),
      channel_id: readWhole(raw.channel_id),
      user_id: readWhole(raw.user_id),
    }),
  component: lazyRouteComponent(() => import('./pages/overview/overview.tsx'), 'Overview'),
})
const start = createRoute({
  getParentRoute: () => shell,
  path: '/start',
  component: lazyRouteComponent(() => import('./pages/start/start.tsx'), 'Start'),
})

const usage = createRoute({
  getParentRoute: () => shell,
  path: '/usage',
  validateSearch: (raw: Raw) => optional(readUsageFilters(raw)),
  component: lazyRouteComponent(() => import('./pages/usage/usage.tsx'), 'Usage'),
})
const explain = createRoute({
  getParentRoute: () => usage,
  path: 'explain',
  // Not `q`, which filters the list behind the panel.
  validateSearch: (raw: Raw) => optional({ error: readText(raw.error) }),
  component: lazyRouteComponent(() => import('./pages/usage/explain-panel.tsx'), 'ExplainPanel'),
})
const usageDetail = createRoute({
  getParentRoute: () => usage,
  path: '$requestId',
  component: lazyRouteComponent(() => import('./pages/usage/request-panel.tsx'), 'RequestPanel'),
})

const videos = createRoute({
  getParentRoute: () => shell,
  path: '/videos',
  validateSearch: (raw: Raw) =>
    optional({
      ...listFields(raw),
      range: readText(raw.range),
      status: readText(raw.status),
      user: readWhole(raw.user),
      channel: readWhole(raw.channel),
      unrefunded: readFlag(raw.unrefunded),
    }),
  component: lazyRouteComponent(() => import('./pages/videos/videos.tsx'), 'Videos'),
})
const video = createRoute({
  getParentRoute: () => videos,
  path: '$id',
  component: lazyRouteComponent(() => import('./pages/videos/video-panel.tsx'), 'VideoPanel'),
})

const playground = createRoute({
  getParentRoute: () => shell,
  path: '/playground',
  validateSearch: ({ model, tab }: Raw) => optional({ model: readText(model), tab: readText(tab) }),
  component: lazyRouteComponent(() => import('./pages/playground/playground.tsx'), 'Playground'),
})

const tokens = createRoute({
  getParentRoute: () => shell,
  path: '/tokens',
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import('./pages/tokens/tokens.tsx'), 'Tokens'),
})
const newToken = createRoute({
  getParentRoute: () => tokens,
  path: 'new',
  component: lazyRouteComponent(() => import('./pages/tokens/new-token.tsx'), 'NewToken'),
})
const token = createRoute({
  getParentRoute: () => tokens,
  path: '$id',
  component: lazyRouteComponent(() => import('./pages/tokens/token-panel.tsx'), 'TokenPanel'),
})

const models = createRoute({
  getParentRoute: () => shell,
  path: '/models',
  validateSearch: (raw: Raw) =>
    optional({ ...listFields(raw), tab: readText(raw.tab), route: readText(raw.route) }),
  component: lazyRouteComponent(() => import('./pages/models/models.tsx'), 'Models'),
})

const channels = createRoute({
  getParentRoute: () => shell,
  path: '/channels',
  validateSearch: (raw: Raw) =>
    optional({
      ...listFields(raw),
      status: readText(raw.status),
      type: readWhole(raw.type),
      tag: readText(raw.tag),
      sort: readText(raw.sort),
      grouped: readFlag(raw.grouped),
      model: readText(raw.model),
    }),
  component: lazyRouteComponent(() => import('./pages/channels/channels.tsx'), 'Channels'),
})
const newChannel = createRoute({
  getParentRoute: () => channels,
  path: 'new',
  component: lazyRouteComponent(() => import('./pages/channels/channel-editor.tsx'), 'NewChannel'),
})
const channel = createRoute({
  getParentRoute: () => channels,
  path: '$id',
  component: lazyRouteComponent(() => import('./pages/channels/channel-panel.tsx'), 'ChannelPanel'),
})
const editChannel = createRoute({
  getParentRoute: () => channels,
  path: '$id/edit',
  component: lazyRouteComponent(() => import('./pages/channels/channel-editor.tsx'), 'EditChannel'),
})

const prices = createRoute({
  getParentRoute: () => shell,
  path: '/prices',
  validateSearch: (raw: Raw) =>
    optional({
      ...listFields(raw),
      source: readText(raw.source),
      scope: readText(raw.scope),
      edit: readText(raw.edit),
    }),
  component: lazyRouteComponent(() => import('./pages/prices/prices.tsx'), 'Prices'),
})

const users = createRoute({
  getParentRoute: () => shell,
  path: '/users',
  validateSearch: (raw: Raw) =>
    optional({
      ...listFields(raw),
      role: readWhole(raw.role),
      status: readWhole(raw.status),
      below: readWhole(raw.below),
    }),
  component: lazyRouteComponent(() => import('./pages/users/users.tsx'), 'Users'),
})
const newUser = createRoute({
  getParentRoute: () => users,
  path: 'new',
  component: lazyRouteComponent(() => import('./pages/users/new-user.tsx'), 'NewUser'),
})
const user = createRoute({
  getParentRoute: () => users,
  path: '$id',
  component: lazyRouteComponent(() => import('./pages/users/user-panel.tsx'), 'UserPanel'),
})

const alerts = createRoute({
  getParentRoute: () => shell,
  path: '/alerts',
  validateSearch: (raw: Raw) =>
    optional({ p: readWhole(raw.p), tab: readText(raw.tab), status: readText(raw.status) }),
  component: lazyRouteComponent(() => import('./pages/alerts/alerts.tsx'), 'Alerts'),
})

const audit = createRoute({
  getParentRoute: () => shell,
  path: '/audit',
  validateSearch: (raw: Raw) =>
    optional({
      ...listFields(raw),
      actor: readWhole(raw.actor),
      action: readText(raw.action),
      target: readText(raw.target),
      seq: readWhole(raw.seq),
      range: readText(raw.range),
      from: readWhole(raw.from),
      to: readWhole(raw.to),
    }),
  component: lazyRouteComponent(() => import('./pages/audit/audit.tsx'), 'Audit'),
})
const history = createRoute({
  getParentRoute: () => shell,
  path: '/history',
  validateSearch: (raw: Raw) => optional({ p: readWhole(raw.p), revision: readWhole(raw.revision) }),
  component: lazyRouteComponent(() => import('./pages/history/history.tsx'), 'ConfigHistory'),
})
const canaries = createRoute({
  getParentRoute: () => shell,
  path: '/canaries',
  validateSearch: (raw: Raw) => optional({ p: readWhole(raw.p), canary: readWhole(raw.canary) }),
  component: lazyRouteComponent(() => import('./pages/canaries/canaries.tsx'), 'Canaries'),
})
const ledger = createRoute({
  getParentRoute: () => shell,
  path: '/ledger',
  validateSearch: (raw: Raw) =>
    optional({
      p: readWhole(raw.p),
      all: readFlag(raw.all),
      user: readWhole(raw.user),
      token: readWhole(raw.token),
      entries: readWhole(raw.entries),
    }),
  component: lazyRouteComponent(() => import('./pages/ledger/ledger.tsx'), 'Ledger'),
})
const nodes = createRoute({
  getParentRoute: () => shell,
  path: '/nodes',
  component: lazyRouteComponent(() => import('./pages/nodes/nodes.tsx'), 'Nodes'),
})
const settings = createRoute({
  getParentRoute: () => shell,
  path: '/settings',
  component: lazyRouteComponent(() => import('./pages/settings/settings.tsx'), 'Settings'),
})
const me = createRoute({
  getParentRoute: () => shell,
  path: '/me',
  component: lazyRouteComponent(() => import('./pages/me/me.tsx'), 'PersonalSettings'),
})
/** Any other address: the menu stays, so that the user can go on. */
const elsewhere = createRoute({ getParentRoute: () => shell, path: '$', component: NotFound })

const tree = root.addChildren([
  signIn,
  shell.addChildren([
    overview,
    start,
    usage.addChildren([explain, usageDetail]),
    videos.addChildren([video]),
    playground,
    tokens.addChildren([newToken, token]),
    models,
    channels.addChildren([newChannel, channel, editChannel]),
    prices,
    users.addChildren([newUser, user]),
    alerts,
    audit,
    history,
    ledger,
    nodes,
    canaries,
    settings,
    me,
    elsewhere,
  ]),
])

export const createConsoleRouter = (client: QueryClient) =>
  createRouter({
    routeTree: tree,
    context: { client },
    basepath: basePath || '/',
    defaultPendingComponent: Loading,
    defaultPreload: 'intent',
    // Plain values in the URL: `?status=2`, not `?status=%222%22`.
    parseSearch: text => Object.fromEntries(new URLSearchParams(text)),
    stringifySearch: search => {
      const filled = Object.entries(search).filter(([, value]) => value !== undefined)
      const text = new URLSearchParams(filled.map(([name, value]) => [name, String(value)])).toString()
      return text && `?${text}`
    },
  })

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createConsoleRouter>
  }
}
