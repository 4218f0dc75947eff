import type { Actor } from '../../domain/actor.ts'
import { type FieldFault, Refusal } from '../../domain/errors.ts'
import { isObject, type JsonObject } from '../../domain/json-object.ts'
import { ROLE } from '../../domain/role.ts'
import { isMaskedValue } from '../../domain/secret-name.ts'
import { ADDRESS_SETTING, type DestinationColumns, movesOf } from '../../identity/secret-destination.ts'

type SecretObject = 'header_override' | 'setting'

const parse = (text: string) => JSON.parse(text) as JsonObject

/** Paths of masked values that keep their stored secret, because the request does not contain the whole value. */
function unsentSecrets(
  stored: JsonObject,
  after: JsonObject,
  sentValues: JsonObject,
  path: string,
): string[] {
  return Object.entries(stored).flatMap(([name, value]) => {
    const at = `${path}.${name}`
    const memberOf = (object: JsonObject) => (isObject(object[name]) ? object[name] : {})
    if (isObject(value)) return unsentSecrets(value, memberOf(after), memberOf(sentValues), at)
    // The credentials of a proxy are sent to the proxy only, which is compared above.
    const goesElsewhere = path.startsWith('setting') && ADDRESS_SETTING.test(name)
    const isKept = isMaskedValue(name, value) && after[name] === value && sentValues[name] !== value
    return isKept && !goesElsewhere ? [at] : []
  })
}

/** The caller of a change, and the secrets that the request itself contains. */
export type SentSecrets = {
  readonly actor: Pick<Actor, 'role'>
  /** Every stored key is replaced by this change. */
  readonly areKeysReplaced?: boolean
  /** The objects in the request, with whole or masked values. */
  readonly objects?: { readonly [name in SecretObject]?: string | JsonObject | undefined }
}

const sentObject = (objectOrText: string | JsonObject | undefined): JsonObject =>
  typeof objectOrText === 'string' ? parse(objectOrText.trim() || '{}') : (objectOrText ?? {})

export type Move = {
  readonly before: DestinationColumns
  readonly after: DestinationColumns
  readonly sentSecrets: SentSecrets
  /** Whether the channel has stored keys; read only if needed. */
  hasKeys(): Promise<boolean>
}

/** Throws 403 if a change would send a stored secret to a new destination and the caller is not Root. */
export async function mustNotMoveSecrets({ before, after, sentSecrets, hasKeys }: Move): Promise<void> {
  if (sentSecrets.actor.role >= ROLE.root) return
  const moves = movesOf(before, after)
  if (moves.length === 0) return
  const why = `must be sent again because ${moves.join(', ')}; only Root may omit it`
  const faults: FieldFault[] = []
  if (!sentSecrets.areKeysReplaced && (await hasKeys())) faults.push({ path: 'key', message: why })
  for (const name of ['header_override', 'setting'] as const)
    for (const path of unsentSecrets(
      parse(before[name]),
      parse(after[name]),
      sentObject(sentSecrets.objects?.[name]),
      name,
    ))
      faults.push({ path, message: why })
  const [first] = faults
  if (first) throw new Refusal('forbidden', `${first.path} ${first.message}`, { errors: faults })
}
