/**
 * A copy of a latin1 text in memory of its own. A concatenated text keeps its parts in memory, and a slice keeps the whole text that it was
 * cut from.
 */
export const flatText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')
