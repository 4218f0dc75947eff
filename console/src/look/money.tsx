import { moneyOfOne } from './format.ts'

/** The cost of one item. Trailing zeros are dimmed instead of removed, so that columns align. */
export function Money({ usd }: { readonly usd: string }) {
  const text = moneyOfOne(usd)
  const zeros = /\.?0+$/.exec(text)?.[0] ?? ''
  return (
    <span title={`$${usd}`} className="whitespace-nowrap">
      {text.slice(0, text.length - zeros.length)}
      <span className="text-ink-3">{zeros}</span>
    </span>
  )
}
