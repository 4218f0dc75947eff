import type { ChainKey } from '../domain/chain.ts'
import { type Anchor, type AnchorHead, sealAnchor } from './anchor.ts'

const ANCHOR_EVERY_MS = 60_000
/** The maximum number of heads in one anchor, because a line of the log has a maximum length. */
const MAX_HEADS = 100

/** The destination of anchors besides the journal: a file or the log. */
export type AnchorSink = {
  /** Whether its anchors can be read back and compared with the journal. */
  readonly isFile: boolean
  append(anchor: Anchor): void
  /** Called before an anchor is appended. True if the sink is empty: then the anchor includes every chain. */
  rotateIfFull(): boolean
  last(): Anchor | undefined
}

type AnchorsDeps = {
  readonly nodeId: string
  readonly key: ChainKey
  /** Only one node of each machine has a sink. */
  readonly sink: AnchorSink | undefined
  heads(): Promise<readonly AnchorHead[]>
  /** Appends to the node's journal. */
  journal(anchor: Anchor, isFiled: boolean): void
  now(): number
  onFailure(error: Error): void
}

/**
 * Writes the heads of the chains to the node's journal and to the sink once a minute, if the chains have grown. At startup
 * and after a rotation an anchor names every chain, otherwise those that have grown.
 */
export function createAnchors({ nodeId, key, sink, heads, journal, now, onFailure }: AnchorsDeps) {
  let previous = sink?.last()?.mac ?? ''
  const anchored = new Map<string, number>()
  let writing: Promise<void> | undefined
  /** The first anchor of a process is written to the sink only, so that an unused journal stays unchanged. */
  let isStarting = true

  async function write(): Promise<void> {
    const isFirst = sink?.rotateIfFull() === true
    const grown = (await heads()).filter(({ chain, seq }) => isFirst || anchored.get(chain) !== seq)
    for (let first = 0; first < grown.length; first += MAX_HEADS)
      writeAnchor(grown.slice(first, first + MAX_HEADS))
  }

  function writeAnchor(grown: readonly AnchorHead[]): void {
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

  /** Runs never overlap. A failure is reported, and the next run retries. */
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
    /** Writes a last anchor. */
    async close(): Promise<void> {
      clearInterval(timer)
      await writing
      await run()
    },
  }
}
