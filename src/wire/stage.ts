/**
 * A synchronous step of a stream: feed it with `push`, then call `end` once. Its results are ready to be passed on. It owns
 * no socket and waits for nothing.
 */
export type Stage<In, Out> = { push(input: In): readonly Out[]; end(): readonly Out[] }
