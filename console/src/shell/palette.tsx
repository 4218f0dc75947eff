import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useDeferredValue, useId, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../api/client.ts'
import { useCall } from '../api/query.ts'
import { useIsAdmin, useSelf } from '../api/self.ts'
import { Key } from '../look/button.tsx'
import { classes } from '../look/classes.ts'
import { Dialog } from '../look/dialog.tsx'
import { setPreferences, usePreferences } from '../look/preferences.ts'
import { useErrorText } from '../look/states.tsx'
import { toast } from '../look/toast.tsx'
import { tokenQuery } from '../pages/tokens/token-search.ts'
import { speak } from '../texts/index.ts'
import { entriesFor } from './navigation.ts'
import { type ItemKind, type Recent, readRecent, saveRecent } from './recent.ts'

type PaletteItem = {
  readonly id: string
  readonly group: string
  readonly words: string
  readonly hint?: string
  /** Additional text, such as a masked key. */
  readonly note?: string
  /** The found item, to remember it as recent. */
  readonly item?: Recent
  act(): void
}

const MIN_LENGTH = 2
/** A request ID, a long word with digits, which may be the ID of a provider, or the text of an error. */
const IS_QUESTION = /^req_|\d[\w-]*\w{10}|\w{10}[\w-]*\d|\s\S+\s\S+\s|[{}]|[a-z]_[a-z]/
/** A key must not get into a URL. */
const WHOLE_KEY = /sk-[A-Za-z0-9]{20}/
const MAX_RESULTS = 5
const MAX_QUESTION = 4_096
/** The page of each kind of item. */
const GROUPS = {
  channel: 'channels',
  token: 'tokens',
  model: 'models',
  user: 'users',
  request: 'usage',
  video: 'videos',
} as const satisfies Record<ItemKind, string>

type Reading<Item> = {
  readonly data: { readonly items: readonly Item[] } | undefined
  readonly isPlaceholderData: boolean
}

/** Results of the current text only. Enter must not pick a result of the previous text. */
const itemsOf = <Item,>({ data, isPlaceholderData }: Reading<Item>): readonly Item[] =>
  isPlaceholderData ? [] : (data?.items ?? [])

/** Pages, actions and models are matched here; channels, tokens and users by the gateway. */
function usePaletteItems(text: string): readonly PaletteItem[] {
  const { t } = useTranslation()
  const { id: selfId, role } = useSelf()
  const isAdmin = useIsAdmin()
  const navigate = useNavigate()
  const { language, theme } = usePreferences()
  const words = useErrorText()
  const client = useQueryClient()
  const testAll = async () => {
    toast(t('palette.testing'))
    try {
      const results = await call('testChannels', {})
      const successes = results.filter(({ success }) => success).length
      toast(t('bulk.tested', { passed: successes, count: results.length }))
      await client.invalidateQueries({ queryKey: ['searchChannels'] })
    } catch (error) {
      toast(words(error))
    }
  }
  const isSearching = text.length >= MIN_LENGTH
  // A key is not a name. It is searched only among tokens, and masked.
  const isName = isSearching && !text.startsWith('sk-')
  const query = { keyword: text, page_size: MAX_RESULTS }
  const channels = useCall('searchChannels', { query }, { enabled: isName && isAdmin })
  const tokens = useCall(
    'searchTokens',
    { query: { ...tokenQuery(text), page_size: MAX_RESULTS } },
    { enabled: isSearching },
  )
  const models = useCall('modelOverview', {}, { enabled: isName, staleMs: 60_000 })
  const users = useCall('searchUsers', { query }, { enabled: isName && isAdmin })
  // Models that only disabled channels list are not in the overview of models.
  const listing = useCall(
    'searchChannels',
    { query: { model: text, page_size: MAX_RESULTS } },
    { enabled: isName && isAdmin },
  )

  const pages = entriesFor(role).map(({ to, name, letter }) => ({
    id: to,
    group: t('palette.go'),
    words: t(`nav.${name}`),
    hint: `g ${letter}`,
    act: () => void navigate({ to }),
  }))
  const acts = [
    { id: 'start', words: t('start.title'), act: () => void navigate({ to: '/start' }) },
    { id: 'me', words: t('nav.me'), act: () => void navigate({ to: '/me' }) },
    { id: 'new-token', words: t('tokens.create'), act: () => void navigate({ to: '/tokens/new' }) },
    ...(isAdmin
      ? [
          { id: 'new-channel', words: t('channels.add'), act: () => void navigate({ to: '/channels/new' }) },
          { id: 'test-all', words: t('palette.test_all'), act: () => void testAll() },
        ]
      : []),
    {
      id: 'theme',
      words: t('palette.theme'),
      act: () => setPreferences({ theme: theme === 'dark' ? 'light' : 'dark' }),
    },
    {
      id: 'language',
      words: language === 'en' ? '简体中文' : 'English',
      act: () => void speak(language === 'en' ? 'zh-CN' : 'en'),
    },
  ].map(each => ({ ...each, group: t('palette.do') }))

  const goTo: Readonly<Record<ItemKind, (key: string) => void>> = {
    channel: id => void navigate({ to: '/channels/$id', params: { id } }),
    token: id => void navigate({ to: '/tokens/$id', params: { id } }),
    model: name =>
      void navigate({ to: '/models', search: isAdmin ? { tab: 'route', route: name } : { q: name } }),
    user: id => void navigate({ to: '/users/$id', params: { id } }),
    request: requestId => void navigate({ to: '/usage/$requestId', params: { requestId } }),
    video: id => void navigate({ to: '/videos/$id', params: { id } }),
  }
  const findOf = (item: Recent, group = t(`nav.${GROUPS[item.kind]}`)): PaletteItem => ({
    id: `${item.kind}-${item.key}`,
    group,
    words: item.words,
    item,
    act: () => goTo[item.kind](item.key),
  })

  const lowerText = text.toLowerCase()
  const fixed = [...pages, ...acts].filter(({ words }) => words.toLowerCase().includes(lowerText))
  const recent = text === '' ? readRecent(selfId).map(item => findOf(item, t('palette.recent'))) : []
  if (!isSearching) return [...recent, ...fixed]
  const listed = itemsOf(listing).flatMap(channel => ('id' in channel ? channel.models : []))
  const modelNames = [...new Set([...(models.data ?? []).map(({ name }) => name), ...listed])].filter(
    name => isName && name.toLowerCase().includes(lowerText),
  )
  const isRequestId = /^req_\w+$/.test(text)
  return [
    ...(isRequestId ? [findOf({ kind: 'request', key: text, words: text })] : []),
    ...(/^video_\w+$/.test(text) ? [findOf({ kind: 'video', key: text, words: text })] : []),
    ...fixed,
    ...(isName ? itemsOf(channels) : []).flatMap(channel =>
      'id' in channel ? findOf({ kind: 'channel', key: String(channel.id), words: channel.name }) : [],
    ),
    ...itemsOf(tokens).map(({ id, name, key }) => ({
      ...findOf({ kind: 'token', key: String(id), words: name }),
      note: key,
    })),
    ...modelNames.slice(0, MAX_RESULTS).map(name => findOf({ kind: 'model', key: name, words: name })),
    ...(isName ? itemsOf(users) : []).map(({ id, username }) =>
      findOf({ kind: 'user', key: String(id), words: username }),
    ),
    ...(IS_QUESTION.test(text) && !isRequestId && !WHOLE_KEY.test(text)
      ? [
          {
            id: 'explain',
            group: t('nav.usage'),
            words: t('explain.search'),
            act: () =>
              void navigate({ to: '/usage/explain', search: { error: text.slice(0, MAX_QUESTION) } }),
          },
        ]
      : []),
  ]
}

function PaletteSearch({ onClose }: { readonly onClose: () => void }) {
  const { t } = useTranslation()
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const self = useSelf()
  const finds = usePaletteItems(useDeferredValue(text.trim()))
  const list = useId()
  const chosen = Math.min(at, finds.length - 1)
  const take = (find: PaletteItem | undefined) => {
    if (!find) return
    if (find.item) saveRecent(self.id, find.item)
    onClose()
    find.act()
  }
  return (
    <>
      <input
        // biome-ignore lint/a11y/noAutofocus: the field is what the palette was opened for
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={chosen >= 0 ? `${list}-${chosen}` : undefined}
        aria-label={t('palette.label')}
        placeholder={t('palette.hint')}
        value={text}
        onChange={event => {
          setText(event.target.value)
          setAt(0)
        }}
        onKeyDown={event => {
          if (event.nativeEvent.isComposing) return
          if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, finds.length - 1))
          else if (event.key === 'ArrowUp') setAt(Math.max(chosen - 1, 0))
          else if (event.key === 'Enter') take(finds[chosen])
          else return
          event.preventDefault()
        }}
        className="control w-full"
      />
      {finds.length === 0 ? <p className="text-ink-3">{t('palette.nothing')}</p> : null}
      <div
        id={list}
        role="listbox"
        aria-label={t('palette.label')}
        className="flex max-h-80 flex-col overflow-y-auto"
      >
        {finds.map((find, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keyboard
          <div
            key={find.id}
            id={`${list}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            onClick={() => take(find)}
            className={classes(
              'flex min-h-8 cursor-pointer items-center gap-3 rounded-control px-2 pointer-coarse:min-h-11',
              index === chosen ? 'bg-accent-soft' : 'hover:bg-sunken',
            )}
          >
            <span className="w-24 shrink-0 truncate text-label text-ink-3">{find.group}</span>
            <span className="grow truncate">{find.words}</span>
            {find.note ? (
              <span className="shrink-0 font-mono text-code text-ink-3 max-sm:hidden">{find.note}</span>
            ) : null}
            {find.hint ? <Key>{find.hint}</Key> : null}
          </div>
        ))}
      </div>
    </>
  )
}

export function Palette({ isOpen, onClose }: { readonly isOpen: boolean; readonly onClose: () => void }) {
  const { t } = useTranslation()
  return (
    <Dialog title={t('palette.title')} isOpen={isOpen} onClose={onClose} isWide>
      <PaletteSearch onClose={onClose} />
    </Dialog>
  )
}
