import type { ChainKey } from '../domain/chain.ts'
import { type Anchor, type ChainHead, sealAnchor } from './anchor.ts'

const ANCHOR_EVERY_MS = 60_000
/** More chains than this take several anchors, so that a line stays shorter than the log lets a line be. */
const MAX_HEADS = 100

/** Where anchors go besides the journal. */
export type AnchorSink = {
  /** Whether what is written there can be read again, and compared with the journal. */
  readonly isFile: boolean
  append(anchor: Anchor): void
  /** Called before an anchor is appended; true where it will be the first one there, and so has to name every chain. */
  makeRoom(): boolean
  last(): Anchor | undefined
}

export type AnchorsDeps = {
  readonly nodeId: string
  readonly key: ChainKey
  /** Of one node on each machine. */
  readonly sink: AnchorSink | undefined
  heads(): Promise<readonly ChainHead[]>
  /** Appends to the node's journal. */
  journal(anchor: Anchor, isFiled: boolean): void
  now(): number
  onFailure(error: Error): void
}

/**
 * Writes down once a minute where the chains end, if they have grown: into the node's journal and into the sink. At the
 * start, and after a rotation, an anchor names every chain, otherwise those that have grown.
 */
export function createAnchors({ nodeId, key, sink, heads, journal, now, onFailure }: AnchorsDeps) {
  let previous = sink?.last()?.mac ?? ''
  const anchored = new Map<string, number>()
  let writing: Promise<void> | undefined
  /** The first anchor of a process only begins the file: a journal that nothing is added to stays as it is. */
  let isStarting = true

  async function write(): Promise<void> {
    const isFirst = sink?.makeRoom() === true
    const grown = (await heads()).filter(({ chain, seq }) => isFirst || anchored.get(chain) !== seq)
    for (let first = 0; first < grown.length; first += MAX_HEADS) put(grown.slice(first, first + MAX_HEADS))
  }

  function put(grown: readonly ChainHead[]): void {
    const anchor = sealAnchor(key, { time: now(), node: nodeId, heads: grown, previous })
    try {
      sink?.append(anchor)
    } catch (error) {
      journal(anchor, false)
      throw error
    }
    if (!isStarting) journal(anchor, sink?.isFile === true)
    previous = anchor.mac
    for (const { chain, seq } of grown) anchored.set(chain, seq)
  }

  /** One at a time; a failure is reported and the next minute tries again. */
  function run(): Promise<void> {
    writing ??= write()
      .catch(onFailure)
      .finally(() => {
        writing = undefined
      })
    return writing
  }

  const timer = setInterval(run, ANCHOR_EVERY_MS)
  timer.unref()

  return {
    async start(): Promise<void> {
      if (sink) await run()
      isStarting = false
    },
    run,
    /** Ends with an anchor of what was written last. */
    async close(): Promise<void> {
      clearInterval(timer)
      await writing
      await run()
    },
  }
}
