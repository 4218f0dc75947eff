import type { RequestListener } from 'node:http'
import type { Logger } from 'pino'
import { Refusal } from '../domain/errors.ts'
import { managementError } from '../http/errors.ts'

/** An HTTP application that is ready for requests. */
type Application = { readonly routing: RequestListener; close(): PromiseLike<void> }

const notLoaded = () =>
  managementError(
    new Refusal('internal_error', 'The management API could not be loaded. The log has the reason.'),
  )

/**
 * The management API and the console, loaded with their first request: they are half of the code, and most workers, and
 * gateways that only relay, never need them. If that fails, it is tried again with the next request.
 */
export function createOnDemandApi(load: () => Promise<Application>, log: Pick<Logger, 'error'>) {
  let app: Application | undefined
  let loading: Promise<Application> | undefined

  function loaded(): Promise<Application> {
    loading ??= load().then(
      application => {
        app = application
        return application
      },
      error => {
        loading = undefined
        throw error
      },
    )
    return loading
  }

  const serve: RequestListener = (request, response) => {
    if (app) return app.routing(request, response)
    loaded().then(
      ({ routing }) => routing(request, response),
      error => {
        log.error({ err: error }, 'The management API could not be loaded.')
        const { status, headers, body } = notLoaded()
        response.writeHead(status, { ...headers, 'content-type': 'application/json; charset=utf-8' })
        response.end(JSON.stringify(body))
      },
    )
  }

  return {
    serve,
    async close(): Promise<void> {
      await (await loading)?.close()
    },
  }
}
