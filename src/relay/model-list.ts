import { Refusal } from '../domain/errors.ts'
import type { RelayIncoming, RelayOutgoing } from '../http/relay-exchange.ts'
import { answerJson, commonHeaders } from './answer/answer.ts'
import { listFormat, presentModel, presentModels } from './answer/models.ts'
import { credentialOf } from './callers/admit.ts'
import { identify } from './callers/identify.ts'
import type { RelayDeps } from './request.ts'

type ModelListCall = {
  readonly request: RelayIncoming
  readonly response: RelayOutgoing
  /** Undefined: all models. */
  readonly id: string | undefined
  readonly requestId: string
}

/** Lists the models that the caller may use, or one of them. */
export async function listModels(
  deps: RelayDeps,
  { request, response, id, requestId }: ModelListCall,
): Promise<void> {
  const { caller } = await identify(deps, request, credentialOf(request))
  const table = deps.catalog.table()
  const names = table.servedModels().filter(name => caller.models?.has(name) ?? true)
  const format = listFormat(request)
  const entryOf = (name: string) => ({
    id: name,
    ownedBy: deps.ownerOf(table.ownerTypes(name)[0]),
    endpointTypes: deps.endpointTypes(name),
  })
  // A constant: clients require a creation time, and the gateway does not know the model's.
  const created = 1_700_000_000
  if (id === undefined) {
    const list = presentModels(format, names.map(entryOf), created)
    answerJson(response, 200, commonHeaders(requestId), list)
    return
  }
  if (!names.includes(id))
    throw new Refusal('model_not_found', `The model "${id}" does not exist, or the token may not use it.`)
  answerJson(response, 200, commonHeaders(requestId), presentModel(format, entryOf(id), created))
}
