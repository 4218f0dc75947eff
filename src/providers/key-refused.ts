/** Nobody takes this key, so that another one must be tried. Its message never holds any of it. */
export class KeyRefused extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'KeyRefused'
  }
}
