import { isDeepStrictEqual } from 'node:util'
import { mask } from '../../src/domain/text.ts'
import type { Api } from './gateway.ts'

/** Reproducible random numbers: the same seed draws the same numbers. */
export function createDraw(seed: number) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const whole = (least: number, most: number) => least + Math.floor(next() * (most - least + 1))
  return {
    whole,
    pick: <T>(list: readonly T[]): T => list[whole(0, list.length - 1)] as T,
    text: (length: number) =>
      Array.from({ length }, () => 'abcdefghijklmnopqrstuvwxyz0123456789'[whole(0, 35)]).join(''),
  }
}

export type Draw = ReturnType<typeof createDraw>

type Fields = Readonly<Record<string, unknown>>
// biome-ignore lint/suspicious/noExplicitAny: tests check responses field by field
type Json = any

/** The expected state of an object: what the API returns of it, and what only the store contains. */
export type Thing = { readonly fields: Fields; readonly secrets?: readonly string[] }
type Request = { readonly method: string; readonly path: string; readonly body?: unknown }

/** One write, and the state after it: the created objects, the changed one, or its absence. */
type Step = Request &
  (
    | { readonly does: 'create'; readonly makes: readonly Thing[] }
    | { readonly does: 'change'; readonly id: number; readonly becomes: Thing }
    | { readonly does: 'remove'; readonly id: number }
  )

type Kind = {
  /** The route that lists all of them. */
  readonly list: string
  readonly nameField: string
  /** The fields that are compared, of an item in the list. */
  fieldsOf(told: Json): Fields
  create(draw: Draw, name: string): Request & { makes: readonly Thing[] }
  change(draw: Draw, id: number, thing: Thing): Request & { becomes: Thing }
  remove(id: number): Request
  /** What only the response to a create contains. */
  secretsOf?(told: Json): readonly string[]
}

const pick = (source: Json, names: readonly string[]): Fields =>
  Object.fromEntries(names.map(name => [name, source[name]]))

const changed = ({ fields, secrets }: Thing, change: Fields): Thing => ({
  fields: { ...fields, ...change },
  ...(secrets ? { secrets } : {}),
})

const models = (draw: Draw) => Array.from({ length: draw.whole(1, 6) }, () => `model-${draw.text(6)}`)
const keyOf = (draw: Draw) => `provider-key-${draw.text(20)}`
const TOKEN_FIELDS = [
  'name',
  'remain_quota',
  'unlimited_quota',
  'model_limits_enabled',
  'models',
  'allow_ips',
  'expired_time',
  'status',
]
const CHANNEL_FIELDS = ['name', 'type', 'key', 'base_url', 'models', 'priority', 'weight', 'status', 'tag']
const USER_FIELDS = ['username', 'display_name', 'role', 'status', 'quota']
const ALIAS_FIELDS = ['name', 'target', 'channel_ids', 'status']
const OPENAI_TYPE = 1

const token: Kind = {
  list: '/api/token/',
  nameField: 'name',
  fieldsOf: item => pick(item, TOKEN_FIELDS),
  secretsOf: item => [item.key],
  create: (draw, name) => {
    const sentFields = {
      name,
      remain_quota: draw.whole(1, 1_000_000),
      models: models(draw),
      model_limits_enabled: true,
      allow_ips: [`10.0.0.${draw.whole(1, 254)}`],
    }
    const fields = { ...sentFields, unlimited_quota: false, expired_time: -1, status: 1 }
    return { method: 'POST', path: '/api/token/', body: sentFields, makes: [{ fields }] }
  },
  change: (draw, id, thing) => {
    const change = draw.pick<() => Fields>([
      () => ({ remain_quota: Number(thing.fields.remain_quota) + draw.whole(1, 1000) }),
      () => ({ status: thing.fields.status === 1 ? 2 : 1 }),
      () => ({ models: models(draw), remain_quota: Number(thing.fields.remain_quota) + 1 }),
    ])()
    return { method: 'PUT', path: '/api/token/', body: { id, ...change }, becomes: changed(thing, change) }
  },
  remove: id => ({ method: 'DELETE', path: `/api/token/${id}` }),
}

const channelThing = (fields: Fields, keys: readonly string[]): Thing => ({
  fields: { ...fields, key: keys.map(key => mask(key)).join('\n') },
  secrets: keys,
})

const channel: Kind = {
  list: '/api/channel/',
  nameField: 'name',
  fieldsOf: item => pick(item, CHANNEL_FIELDS),
  create: (draw, name) => {
    const mode = draw.pick(['single', 'batch', 'multi_to_single'])
    const keys = Array.from({ length: mode === 'single' ? 1 : draw.whole(2, 4) }, () => keyOf(draw))
    const sentFields = {
      name,
      type: OPENAI_TYPE,
      base_url: `http://127.0.0.1:${draw.whole(1024, 65_535)}`,
      models: models(draw),
      priority: draw.whole(0, 9),
      weight: draw.whole(0, 9),
      tag: `tag-${draw.whole(1, 3)}`,
    }
    const fields = { ...sentFields, status: 1 }
    const makes =
      mode === 'batch'
        ? keys.map((key, index) =>
            channelThing({ ...fields, name: index === 0 ? name : `${name} ${index + 1}` }, [key]),
          )
        : [channelThing(fields, keys)]
    const body = { mode, channel: { ...sentFields, key: keys.join('\n') } }
    return { method: 'POST', path: '/api/channel/', body, makes }
  },
  change: (draw, id, thing) => {
    const fresh = (thing.secrets ?? []).map(() => keyOf(draw))
    const { change, keys } = draw.pick<() => { change: Fields; keys?: readonly string[] }>([
      () => ({ change: { models: models(draw), priority: Number(thing.fields.priority) + 1 } }),
      () => ({ change: { weight: Number(thing.fields.weight) + 1, status: draw.pick([1, 2]) } }),
      () => ({ change: { models: models(draw) }, keys: fresh }),
    ])()
    const body = { id, ...change, ...(keys ? { key: keys.join('\n') } : {}) }
    const becomes = keys ? channelThing({ ...thing.fields, ...change }, keys) : changed(thing, change)
    return { method: 'PUT', path: '/api/channel/', body: body, becomes }
  },
  remove: id => ({ method: 'DELETE', path: `/api/channel/${id}` }),
}

const user: Kind = {
  list: '/api/user/',
  nameField: 'username',
  fieldsOf: item => pick(item, USER_FIELDS),
  create: (draw, name) => {
    const sentFields = { username: name, display_name: `The ${name}`, quota: draw.whole(1, 1_000_000) }
    const body = { ...sentFields, password: `password of ${name}` }
    return {
      method: 'POST',
      path: '/api/user/',
      body,
      makes: [{ fields: { ...sentFields, role: 1, status: 1 } }],
    }
  },
  change: (draw, id, thing) => {
    const quota = Number(thing.fields.quota)
    const manage = (mode: string, value: number, newQuota: number) => ({
      method: 'POST',
      path: '/api/user/manage',
      body: { id, action: 'add_quota', mode, value },
      becomes: changed(thing, { quota: newQuota }),
    })
    const more = draw.whole(1, 1000)
    const less = Math.min(quota, draw.whole(1, 1000))
    return draw.pick<() => Request & { becomes: Thing }>([
      () => manage('add', more, quota + more),
      () => (less === 0 ? manage('add', more, quota + more) : manage('subtract', less, quota - less)),
      () => manage('override', quota + more, quota + more),
      () => {
        const change = { display_name: `renamed ${draw.text(8)}`, quota: quota + more }
        return { method: 'PUT', path: '/api/user/', body: { id, ...change }, becomes: changed(thing, change) }
      },
    ])()
  },
  remove: id => ({ method: 'DELETE', path: `/api/user/${id}` }),
}

const alias: Kind = {
  list: '/api/alias/',
  nameField: 'name',
  fieldsOf: item => pick(item, ALIAS_FIELDS),
  create: (draw, name) => {
    const sentFields = { name, target: `target-${draw.text(10)}`, channel_ids: null }
    return {
      method: 'POST',
      path: '/api/alias/',
      body: sentFields,
      makes: [{ fields: { ...sentFields, status: 1 } }],
    }
  },
  change: (draw, id, thing) => {
    const change = { target: `target-${draw.text(10)}`, status: draw.pick([1, 2]) }
    return { method: 'PUT', path: '/api/alias/', body: { id, ...change }, becomes: changed(thing, change) }
  },
  remove: id => ({ method: 'DELETE', path: `/api/alias/${id}` }),
}

export const KINDS = { token, channel, user, alias } as const
export type KindName = keyof typeof KINDS
const KIND_NAMES = Object.keys(KINDS) as KindName[]

/**
 * How many writers each kind of object has, each with its own objects; few create users, because a password
 * hash is slow.
 */
const HANDS: Readonly<Record<KindName, number>> = { token: 4, channel: 3, user: 1, alias: 1 }
/** A writer with this many objects changes or deletes some. */
const MOST_THINGS = 12
const SETTINGS = '/api/setting/'

type Doubt = { readonly kind: KindName; readonly step: Step }
export type Found = { readonly lost: string[]; readonly halfMade: string[]; readonly landed: number }

/**
 * Concurrent writes over the management API, and a record of the responses. A write without a response is
 * unresolved: it may have been executed or not, but completely or not at all.
 */
export function createRandomWrites(draw: Draw) {
  const things = { token: new Map(), channel: new Map(), user: new Map(), alias: new Map() } as Record<
    KindName,
    Map<number, Thing>
  >
  const everSeen = { token: new Set(), channel: new Set(), user: new Set(), alias: new Set() } as Record<
    KindName,
    Set<number>
  >
  /** The request ids of the responses, by which each write is found in the audit log. */
  const answered = new Set<string>()
  const faults: string[] = []
  let doubts: Doubt[] = []
  let settings: Fields = {}
  let settingsInDoubt: Fields | undefined
  let names = 0
  let writes = 0

  function nextStep(kind: KindName, own: readonly number[]): Step {
    const { create, change, remove } = KINDS[kind]
    const does =
      own.length === 0
        ? 'create'
        : own.length >= MOST_THINGS
          ? draw.pick(['change', 'remove'] as const)
          : draw.pick(['create', 'create', 'change', 'change', 'remove'] as const)
    if (does === 'create') return { does, ...create(draw, `${kind}-${++names}`) }
    const id = draw.pick(own)
    const thing = things[kind].get(id) as Thing
    return does === 'change' ? { does, id, ...change(draw, id, thing) } : { does, id, ...remove(id) }
  }

  function keep(kind: KindName, id: number, thing: Thing): void {
    if (everSeen[kind].has(id)) faults.push(`${kind} ${id} was given out twice`)
    everSeen[kind].add(id)
    things[kind].set(id, thing)
  }

  /** A response arrived: from now on this state is expected. */
  function land(kind: KindName, step: Step, data: Json): readonly number[] {
    if (step.does === 'change') things[kind].set(step.id, step.becomes)
    if (step.does === 'remove') things[kind].delete(step.id)
    if (step.does !== 'create') return []
    const items: Json[] = Array.isArray(data) ? data : [data]
    if (items.length !== step.makes.length)
      faults.push(`${kind}: ${items.length} made, not ${step.makes.length}`)
    for (const [index, item] of items.entries()) {
      const secrets = KINDS[kind].secretsOf?.(item)
      const thing = step.makes[index] as Thing
      keep(kind, item.id, secrets ? { ...thing, secrets } : thing)
    }
    return items.map(item => item.id)
  }

  async function ask(api: Api, { method, path, body }: Request): Promise<Json | undefined> {
    const { status, body: responseBody, headers, text } = await api(method, path, body)
    if (status !== 200) {
      faults.push(`${method} ${path} ${JSON.stringify(body)} → ${status} ${text}`)
      return undefined
    }
    answered.add(headers.get('x-request-id') ?? '')
    writes += 1
    return responseBody
  }

  /** One writer: it changes and deletes only its own objects, so no other writer changes them meanwhile. */
  async function write(api: Api, kind: KindName, ids: readonly number[]): Promise<void> {
    const own = new Set(ids)
    for (;;) {
      const step = nextStep(
        kind,
        [...own].filter(id => things[kind].has(id)),
      )
      try {
        const responseBody = await ask(api, step)
        if (responseBody === undefined) return
        for (const id of land(kind, step, responseBody.data)) own.add(id)
      } catch {
        doubts.push({ kind, step })
        return
      }
    }
  }

  /** Two settings at once, so that a partial change would show. */
  async function writeSettings(api: Api): Promise<void> {
    for (;;) {
      names += 1
      const next = { attempts: draw.whole(1, 50), early_headers_ms: names % 600_000 }
      try {
        if ((await ask(api, { method: 'PUT', path: SETTINGS, body: next })) === undefined) return
        settings = next
      } catch {
        settingsInDoubt = next
        return
      }
    }
  }

  async function readAll(api: Api, kind: KindName): Promise<Map<number, Fields>> {
    const { list, fieldsOf } = KINDS[kind]
    const fieldsById = new Map<number, Fields>()
    for (let page = 1; ; page++) {
      const { body } = await api('GET', `${list}?page_size=500&p=${page}`)
      for (const item of body.data.items)
        if (item.username !== 'root') fieldsById.set(item.id, fieldsOf(item))
      if (page * 500 >= body.data.total) return fieldsById
    }
  }

  /**
   * Resolves unresolved writes by the current state; returns how many of their parts are neither done nor
   * undone.
   */
  function settle({ kind, step }: Doubt, fieldsById: Map<number, Fields>): 'done' | 'undone' | 'half' {
    if (step.does === 'remove') {
      if (fieldsById.has(step.id)) return 'undone'
      things[kind].delete(step.id)
      return 'done'
    }
    if (step.does === 'change') {
      if (!isDeepStrictEqual(fieldsById.get(step.id), step.becomes.fields)) return 'undone'
      things[kind].set(step.id, step.becomes)
      return 'done'
    }
    const { nameField } = KINDS[kind]
    const createdThings = step.makes.map(thing => {
      const entry = [...fieldsById].find(([, fields]) => fields[nameField] === thing.fields[nameField])
      return entry && isDeepStrictEqual(entry[1], thing.fields) ? { id: entry[0], thing } : undefined
    })
    if (createdThings.every(each => each === undefined)) return 'undone'
    for (const each of createdThings) if (each) keep(kind, each.id, each.thing)
    return createdThings.every(each => each !== undefined) ? 'done' : 'half'
  }

  const show = (value: unknown) => JSON.stringify(value)

  return {
    answered,
    faults,
    things,
    count: () => writes,
    inDoubt: () => doubts.length + (settingsInDoubt ? 1 : 0),

    /** Writes with all writers until the server has ended. */
    async start(api: Api): Promise<void> {
      const hands = KIND_NAMES.flatMap(kind => {
        const ids = [...things[kind].keys()]
        const share = (hand: number) => ids.filter((_, index) => index % HANDS[kind] === hand)
        return Array.from({ length: HANDS[kind] }, (_, hand) => write(api, kind, share(hand)))
      })
      await Promise.all([...hands, writeSettings(api)])
    },

    /** Compares the current state with all responses. */
    async compare(api: Api): Promise<Found> {
      const lost: string[] = []
      const halfMade: string[] = []
      let landed = 0
      for (const kind of KIND_NAMES) {
        const fieldsById = await readAll(api, kind)
        for (const doubt of doubts.filter(each => each.kind === kind)) {
          const outcome = settle(doubt, fieldsById)
          if (outcome === 'half') halfMade.push(`${kind}: ${show(doubt.step)}`)
          if (outcome !== 'undone') landed += 1
        }
        for (const [id, { fields }] of things[kind])
          if (!isDeepStrictEqual(fieldsById.get(id), fields))
            lost.push(`${kind} ${id}: ${show(fieldsById.get(id))}, not ${show(fields)}`)
        for (const [id, fields] of fieldsById)
          if (!things[kind].has(id)) halfMade.push(`${kind} ${id} that nobody asked for: ${show(fields)}`)
      }
      doubts = []

      const { body } = await api('GET', SETTINGS)
      const storedSettings = Object.fromEntries(body.data.map(({ key, value }: Json) => [key, value]))
      const isAs = (expected: Fields) =>
        Object.entries(expected).every(([key, value]) => storedSettings[key] === value)
      if (settingsInDoubt && isAs(settingsInDoubt)) {
        settings = settingsInDoubt
        landed += 1
      }
      settingsInDoubt = undefined
      if (!isAs(settings)) lost.push(`settings: ${show(storedSettings)}, not ${show(settings)}`)
      return { lost, halfMade, landed }
    },
  }
}

export type RandomWrites = ReturnType<typeof createRandomWrites>
