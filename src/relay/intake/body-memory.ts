/** Sizes are multiples of this, so that bodies of nearly the same size use the same memory. */
const STEP_BYTES = 256 * 1024
/** Memory that is kept for the next bodies. */
const MAX_SPARE_BYTES = 16 * 1_048_576

/**
 * Memory for uploads that is used again. With new memory for each of them, V8 marks its whole heap after every few megabytes: that, and
 * the system's work for the pages, took two fifths of the CPU time of an upload.
 */
export function createBodyMemory() {
  const spare = new Map<number, Buffer[]>()
  let spareBytes = 0

  return {
    /** Memory for at least so many bytes. It contains bytes of earlier bodies. */
    take(bytes: number): Buffer {
      const size = Math.max(1, Math.ceil(bytes / STEP_BYTES)) * STEP_BYTES
      const memory = spare.get(size)?.pop()
      if (memory === undefined) return Buffer.allocUnsafeSlow(size)
      spareBytes -= size
      return memory
    },
    /** Takes memory back that nothing reads any more, and no socket writes from. */
    give(memory: Buffer): void {
      if (spareBytes + memory.length > MAX_SPARE_BYTES) return
      spareBytes += memory.length
      const others = spare.get(memory.length)
      if (others) others.push(memory)
      else spare.set(memory.length, [memory])
    },
  }
}

export type BodyMemory = ReturnType<typeof createBodyMemory>
