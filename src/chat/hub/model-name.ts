import { codePoints, hasControl } from '../../domain/text.ts'
import { MAX_MODEL_LENGTH } from '../../requests/request-fields.ts'
import type { FieldReader } from './fields.ts'
import type { ChatRequest } from './hub.ts'

/** The model that a request names, in its body or in its URL. All formats share this check. */
export function modelIn(body: FieldReader, inAddress?: string): string {
  const model = inAddress ?? body.needText('model')
  if (model === '') body.missing('model')
  if (codePoints(model) > MAX_MODEL_LENGTH) {
    body.refuse('model', `must have at most ${MAX_MODEL_LENGTH} characters`)
  }
  if (hasControl(model) || !model.isWellFormed()) {
    body.refuse('model', 'must be valid Unicode without control characters')
  }
  return model
}

/** The model that an answer names. Some vendors name none: their clients get the requested name. */
export const modelOfAnswer = (model: string, request: Pick<ChatRequest, 'model'> | undefined): string =>
  model || (request?.model ?? '')
