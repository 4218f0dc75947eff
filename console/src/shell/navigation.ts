import { ROLE } from '../api/self.ts'
import {
  Bell,
  BookOpenCheck,
  Boxes,
  CircleGauge,
  Clapperboard,
  Coins,
  FileDiff,
  History,
  type Icon,
  KeyRound,
  MessageSquare,
  Network,
  ScrollText,
  Server,
  Settings,
  Split,
  Users,
} from '../look/icons.ts'

export type MenuEntry = {
  readonly to:
    | '/'
    | '/usage'
    | '/videos'
    | '/playground'
    | '/tokens'
    | '/models'
    | '/channels'
    | '/prices'
    | '/canaries'
    | '/users'
    | '/alerts'
    | '/audit'
    | '/history'
    | '/ledger'
    | '/nodes'
    | '/settings'
  readonly name:
    | 'overview'
    | 'usage'
    | 'videos'
    | 'playground'
    | 'tokens'
    | 'models'
    | 'channels'
    | 'prices'
    | 'canaries'
    | 'users'
    | 'alerts'
    | 'audit'
    | 'history'
    | 'ledger'
    | 'nodes'
    | 'settings'
  /** Shortcut: `g`, then this letter. */
  readonly letter: string
  readonly icon: Icon
  readonly role: number
}

type Group = {
  readonly name: 'monitor' | 'build' | 'manage' | 'audit' | 'system'
  readonly entries: readonly MenuEntry[]
}

/** The menu. Pages that the user's role may not open are hidden. */
export const NAVIGATION: readonly Group[] = [
  {
    name: 'monitor',
    entries: [
      { to: '/', name: 'overview', letter: 'o', icon: CircleGauge, role: ROLE.user },
      { to: '/usage', name: 'usage', letter: 'u', icon: ScrollText, role: ROLE.user },
      { to: '/videos', name: 'videos', letter: 'v', icon: Clapperboard, role: ROLE.user },
    ],
  },
  {
    name: 'build',
    entries: [
      { to: '/playground', name: 'playground', letter: 'p', icon: MessageSquare, role: ROLE.user },
      { to: '/tokens', name: 'tokens', letter: 't', icon: KeyRound, role: ROLE.user },
      { to: '/models', name: 'models', letter: 'm', icon: Boxes, role: ROLE.user },
    ],
  },
  {
    name: 'manage',
    entries: [
      { to: '/channels', name: 'channels', letter: 'c', icon: Network, role: ROLE.admin },
      { to: '/prices', name: 'prices', letter: 'r', icon: Coins, role: ROLE.admin },
      { to: '/canaries', name: 'canaries', letter: 'y', icon: Split, role: ROLE.admin },
      { to: '/users', name: 'users', letter: 's', icon: Users, role: ROLE.admin },
      { to: '/alerts', name: 'alerts', letter: 'n', icon: Bell, role: ROLE.admin },
    ],
  },
  {
    name: 'audit',
    entries: [
      { to: '/audit', name: 'audit', letter: 'a', icon: History, role: ROLE.admin },
      { to: '/history', name: 'history', letter: 'h', icon: FileDiff, role: ROLE.admin },
      { to: '/ledger', name: 'ledger', letter: 'l', icon: BookOpenCheck, role: ROLE.admin },
    ],
  },
  {
    name: 'system',
    entries: [
      { to: '/nodes', name: 'nodes', letter: 'd', icon: Server, role: ROLE.admin },
      { to: '/settings', name: 'settings', letter: 'e', icon: Settings, role: ROLE.root },
    ],
  },
]

export const entriesFor = (role: number): readonly MenuEntry[] =>
  NAVIGATION.flatMap(({ entries }) => entries).filter(entry => entry.role <= role)

export const groupsFor = (role: number): readonly Group[] =>
  NAVIGATION.map(group => ({ ...group, entries: group.entries.filter(entry => entry.role <= role) })).filter(
    ({ entries }) => entries.length > 0,
  )
