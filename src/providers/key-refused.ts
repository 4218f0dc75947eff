/** The key is unusable, so another one must be tried. The message never contains a part of the key. */
export class KeyRefused extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'KeyRefused'
  }
}
