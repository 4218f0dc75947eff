type HourlyChartProps = {
  readonly hours: readonly { readonly requests: number; readonly failures: number }[]
  readonly words: string
}

/** A day without requests. */
const IDLE = Array.from({ length: 24 }, () => ({ requests: 0, failures: 0 }))

/** A bar chart of 24 hours: requests, with failures in the lower part. */
export function HourlyChart({ hours: counts, words }: HourlyChartProps) {
  const hours = counts.length > 0 ? counts : IDLE
  const most = Math.max(1, ...hours.map(({ requests }) => requests))
  return (
    <svg
      viewBox={`0 0 ${hours.length * 4} 16`}
      preserveAspectRatio="none"
      className="h-4 w-16"
      role="img"
      aria-label={words}
    >
      <title>{words}</title>
      {hours.map(({ requests, failures }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: hours are known by their order
        <g key={index}>
          <rect x={index * 4} y="15" width="3" height="1" className="fill-line" />
          <rect
            x={index * 4}
            y={16 - (requests / most) * 16}
            width="3"
            height={(requests / most) * 16}
            className="fill-accent"
          />
          <rect
            x={index * 4}
            y={16 - (failures / most) * 16}
            width="3"
            height={(failures / most) * 16}
            className="fill-bad"
          />
        </g>
      ))}
    </svg>
  )
}
