import { moneyOfOne } from './format.ts'

/** Money of one thing; trailing zeros paler, not dropped, so that columns align. */
export function Money({ usd }: { readonly usd: string }) {
  const text = moneyOfOne(usd)
  const zeros = /0+$/.exec(text)?.[0] ?? ''
  return (
    <span title={`$${usd}`} className="whitespace-nowrap">
      {text.slice(0, text.length - zeros.length)}
      <span className="text-ink-3">{zeros}</span>
    </span>
  )
}
