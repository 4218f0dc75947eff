import { Line, LineChart, ResponsiveContainer, Tooltip } from 'recharts'
import { Axes } from './axes.tsx'
import { ChartFrame, Tip, type Track } from './chart-frame.tsx'

type LinesProps = {
  readonly starts: readonly number[]
  readonly stepS: number
  readonly tracks: readonly Track[]
  readonly format: (value: number) => string
  readonly summary: string
}

/** A line chart over time, with gaps where there is no data. */
export function Lines({ starts, stepS, tracks, format, summary }: LinesProps) {
  const data = starts.map((start, index) => ({
    start,
    ...Object.fromEntries(tracks.map(({ key, values }) => [key, values[index] ?? null])),
  }))
  /** A point between two gaps has no line, so it is drawn as a dot. */
  const isIsolated = (values: Track['values'], index: number) =>
    values[index] != null && values[index - 1] == null && values[index + 1] == null
  return (
    <ChartFrame starts={starts} tracks={tracks} format={format} summary={summary} isLines>
      <ResponsiveContainer width="100%" height="100%">
        <LineChart data={data} accessibilityLayer={false} margin={{ top: 4, right: 4, bottom: 0, left: 0 }}>
          <Axes stepS={stepS} onAxis={format} />
          <Tooltip
            cursor={{ stroke: 'var(--edge)' }}
            content={({ active, payload }) => {
              const start = payload?.[0]?.payload?.start as number | undefined
              if (!active || start === undefined) return null
              return <Tip start={start} at={starts.indexOf(start)} tracks={tracks} format={format} isLines />
            }}
          />
          {tracks.map(({ key, fill, dash, values }) => (
            <Line
              key={key}
              dataKey={key}
              stroke={fill}
              strokeWidth={1.75}
              {...(dash === undefined ? {} : { strokeDasharray: dash })}
              dot={({ cx, cy, index }: { cx?: number; cy?: number; index?: number }) =>
                index !== undefined && isIsolated(values, index) ? (
                  <circle key={index} cx={cx} cy={cy} r={2.5} fill={fill} />
                ) : (
                  <g key={index} />
                )
              }
              activeDot={false}
              isAnimationActive={false}
            />
          ))}
        </LineChart>
      </ResponsiveContainer>
    </ChartFrame>
  )
}
