/**
 * A copy of a latin1 text in memory of its own. A text that was concatenated refers to its parts, and one that was cut out of another to
 * all of that.
 */
export const flatText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')
