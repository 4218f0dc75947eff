import { readRecordedAnswer } from '../../chat/recorded.ts'

/** The text that a chat answers with; the whole body of an error or of another operation. */
export function textOfAnswer(path: string, answer: { type: string; body: Buffer }): string {
  const recorded = readRecordedAnswer(path, answer)
  if (!recorded) return answer.body.toString('utf8')
  return recorded.parts.map(part => (part.type === 'text' ? part.text : '')).join('')
}
