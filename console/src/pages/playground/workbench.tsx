import { type ReactNode, useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from '../../look/button.tsx'
import { CodeBlock } from '../../look/code-block.tsx'
import { Play, Square } from '../../look/icons.ts'
import { Sheet } from '../../look/page.tsx'
import { CallSnippets } from '../../look/snippets.tsx'
import { Empty, ErrorCard } from '../../look/states.tsx'
import { useBillingToken } from './available-models.ts'
import { type CompletedRequest, Receipt } from './receipt.tsx'
import { type PlaygroundCall, sendRequest } from './send-request.ts'

type State<Result> = {
  readonly isRunning: boolean
  readonly isStopped?: boolean
  readonly fault?: unknown
  readonly done?: CompletedRequest & { readonly result: Result }
}

/** Runs one request at a time, which can be stopped. */
function useRun<Result>(read: (response: Response) => Promise<Result>) {
  const [state, setState] = useState<State<Result>>({ isRunning: false })
  const abort = useRef<AbortController>(undefined)
  const run = async (call: Omit<PlaygroundCall, 'signal'>) => {
    const controller = new AbortController()
    abort.current = controller
    setState({ isRunning: true })
    const startedMs = performance.now()
    try {
      const response = await sendRequest({ ...call, signal: controller.signal })
      const result = await read(response)
      const requestId = response.headers.get('x-request-id') ?? ''
      setState({ isRunning: false, done: { result, requestId, totalMs: performance.now() - startedMs } })
    } catch (fault) {
      setState(
        controller.signal.aborted ? { isRunning: false, isStopped: true } : { isRunning: false, fault },
      )
    }
  }
  // Leaving the page stops the request.
  useEffect(() => () => abort.current?.abort(), [])
  return { ...state, run, stop: () => abort.current?.abort() }
}

/** The layout of every tab: settings on the left, the result on the right. */
export const PLAYGROUND_GRID = 'grid items-start gap-4 lg:grid-cols-[340px_minmax(0,1fr)]'

type WorkbenchProps<Result> = Pick<PlaygroundCall, 'path' | 'body' | 'file'> & {
  readonly isReady: boolean
  /** The response is a binary file, saved under this name. */
  readonly saves?: string
  readonly read: (response: Response) => Promise<Result>
  readonly show: (result: Result) => ReactNode
  /** Title of the empty state. */
  readonly empty: string
  /** Buttons that fill the form with an example. */
  readonly examples?: readonly { readonly words: string; readonly onTake: () => void }[]
  readonly children: ReactNode
}

/** A form on the left, its result on the right, and the code below. */
export function Workbench<Result>({
  path,
  body,
  file,
  isReady,
  saves,
  read,
  show,
  empty,
  examples = [],
  children,
}: WorkbenchProps<Result>) {
  const { t } = useTranslation()
  const tokenId = useBillingToken()?.id
  const { run, stop, isRunning, isStopped, fault, done } = useRun(read)
  const results = useRef<HTMLDivElement>(null)
  const start = () => {
    if (!isReady || isRunning) return
    // On a phone the results are below the form.
    results.current?.scrollIntoView({ block: 'nearest' })
    void run({ path, body, file, tokenId })
  }
  return (
    <div className={PLAYGROUND_GRID}>
      <Sheet>
        <form
          className="flex flex-col gap-4 p-4"
          onSubmit={event => {
            event.preventDefault()
            start()
          }}
          onKeyDown={event => {
            if (event.nativeEvent.isComposing) return
            if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) start()
            if (event.key === 'Escape' && isRunning) stop()
          }}
        >
          {children}
          <div className="flex justify-end gap-2">
            {isRunning ? (
              <Button icon={Square} onClick={stop}>
                {t('playground.stop')}
              </Button>
            ) : (
              <Button type="submit" kind="primary" icon={Play} disabled={!isReady}>
                {t('playground.run')}
              </Button>
            )}
          </div>
        </form>
      </Sheet>
      <div ref={results} className="flex min-w-0 scroll-mt-16 flex-col gap-4">
        <Sheet title={t('playground.result')}>
          <div className="flex flex-col gap-3 p-4" aria-live="polite" aria-busy={isRunning}>
            {isRunning ? <p className="text-ink-3">{t('playground.working')}</p> : null}
            {isStopped ? <p className="text-warn">{t('playground.cancelled')}</p> : null}
            {fault ? <ErrorCard error={fault} /> : null}
            {done ? (
              <>
                {show(done.result)}
                <Receipt request={done} />
              </>
            ) : null}
            {isRunning || isStopped || fault || done ? null : (
              <Empty title={empty}>
                <div className="flex flex-wrap justify-center gap-2">
                  {examples.map(({ words, onTake }) => (
                    <Button key={words} onClick={onTake} className="h-auto! py-1.5 whitespace-normal!">
                      {words}
                    </Button>
                  ))}
                </div>
              </Empty>
            )}
          </div>
        </Sheet>
        <AsCode path={path} body={body} file={file?.name ?? fileName(path)} saves={saves} />
      </div>
    </div>
  )
}

/** Placeholder name until a file is chosen. */
const fileName = (path: string) => (/transcriptions|translations/.test(path) ? 'speech.mp3' : undefined)

type AsCodeProps = {
  readonly path: string
  readonly body: PlaygroundCall['body']
  readonly file?: string | undefined
  readonly saves?: string | undefined
}

/** The request as code, with a placeholder for the key. */
export function AsCode({ path, body, file, saves }: AsCodeProps) {
  const { t } = useTranslation()
  return (
    <details className="sheet">
      <summary className="px-4 py-2.5 font-medium">{t('playground.code')}</summary>
      <div className="border-t border-line p-4">
        <CallSnippets path={path} body={body} file={file} saves={saves} />
      </div>
    </details>
  )
}

/** The raw response. */
export function Raw({ value }: { readonly value: unknown }) {
  const { t } = useTranslation()
  return (
    <details>
      <summary className="text-label text-ink-2">{t('playground.raw')}</summary>
      <div className="flex pt-2">
        <CodeBlock>{JSON.stringify(value, null, 2)}</CodeBlock>
      </div>
    </details>
  )
}
