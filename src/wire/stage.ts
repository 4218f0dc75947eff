/**
 * A synchronous step of a stream: feed it with `push`, then call `end` once. What it gives back is ready to go on; it owns
 * no socket and waits for nothing.
 */
export type Stage<In, Out> = { push(input: In): readonly Out[]; end(): readonly Out[] }
