/** A duration: `0.25 s`, `60 s`. */
export const secondsText = (ms: number) => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`

/** A moment: `2026-11-16 22:31:05 UTC`. The console shows it in the time zone of the reader. */
export const momentText = (seconds: number) =>
  `${new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ')} UTC`

/** An object of the gateway in a sentence. After the words channel, token and user, the console shows it as a link. */
export const reference = ({ id, name }: { readonly id: number; readonly name: string }) =>
  `"${name}" (#${id})`
