/** A journal is damaged, so none of its records may be applied. The message names the file. */
export class JournalDamageError extends Error {
  constructor(damage: string) {
    super(`a journal is damaged: ${damage}`)
    this.name = 'JournalDamageError'
  }
}
