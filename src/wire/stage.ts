/**
 * A synchronous step of a stream: feed it with `push`, then call `end` once. It does no input or output, and its results
 * can be passed on at once.
 */
export type Stage<In, Out> = { push(input: In): readonly Out[]; end(): readonly Out[] }
