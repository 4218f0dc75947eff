import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Bar, Cell, ComposedChart, Line, ReferenceArea, ResponsiveContainer, Tooltip } from 'recharts'
import { Axes } from './axes.tsx'
import { ChartFrame, Tip, type Track } from './chart-frame.tsx'

export type BarsProps = {
  readonly starts: readonly number[]
  readonly stepS: number
  /** Bottom to top. */
  readonly stacks: readonly (Track & { readonly values: readonly number[] })[]
  /** Totals of the compared period. */
  readonly before?: readonly number[] | undefined
  readonly format: (value: number) => string
  readonly onAxis: (value: number) => string
  readonly summary: string
  /** The values are whole numbers, and so are those of the axis. */
  readonly isWhole?: boolean
  /** Called when bars are selected by click or drag. Without it, a click opens the requests of the bar. */
  readonly onPick?: (firstStart: number, lastStart: number) => void
}

type ChartEvent = { activeLabel?: string | number | undefined }

/** A stacked bar chart over time. A bar links to its requests. */
export function Bars({ starts, stepS, stacks, before, format, onAxis, summary, isWhole, onPick }: BarsProps) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const [drag, setDrag] = useState<{ from: number; to: number }>()
  const pick =
    onPick ??
    ((start: number) => void navigate({ to: '/usage', search: { from: start, to: start + stepS - 1 } }))
  const endDrag = () => {
    if (drag) pick(Math.min(drag.from, drag.to), Math.max(drag.from, drag.to))
    setDrag(undefined)
  }
  const compared: readonly Track[] = before
    ? [
        {
          key: 'before',
          name: t('overview.previous_period'),
          fill: 'var(--ink-2)',
          values: before,
          dash: '4 3',
        },
      ]
    : []
  const tracks = [...stacks, ...compared]
  const data = starts.map((start, index) => ({
    start,
    ...Object.fromEntries(tracks.map(({ key, values }) => [key, values[index] ?? 0])),
  }))
  const isEmpty = tracks.every(({ values }) => values.every(value => value === 0))
  const isOver = (start: number) => start + stepS <= Date.now() / 1000
  return (
    <ChartFrame starts={starts} tracks={tracks} format={format} summary={summary}>
      <ResponsiveContainer width="100%" height="100%">
        <ComposedChart
          data={data}
          accessibilityLayer={false}
          margin={{ top: 4, right: 0, bottom: 0, left: 0 }}
          {...(onPick && {
            onMouseDown: ({ activeLabel }: ChartEvent) =>
              activeLabel !== undefined && setDrag({ from: Number(activeLabel), to: Number(activeLabel) }),
            onMouseMove: ({ activeLabel }: ChartEvent) =>
              drag && activeLabel !== undefined && setDrag({ ...drag, to: Number(activeLabel) }),
            onMouseUp: endDrag,
            onMouseLeave: () => setDrag(undefined),
            className: 'cursor-pointer select-none',
          })}
        >
          <Axes stepS={stepS} onAxis={isEmpty ? () => '' : onAxis} isWhole={isWhole ?? false} />
          <Tooltip
            cursor={{ fill: 'var(--sunken)' }}
            content={({ active, payload }) => {
              const start = payload?.[0]?.payload?.start as number | undefined
              if (!active || start === undefined) return null
              return (
                <Tip
                  start={start}
                  at={starts.indexOf(start)}
                  tracks={[...[...stacks].reverse(), ...compared]}
                  format={format}
                  note={isOver(start) ? undefined : t('overview.in_progress')}
                />
              )
            }}
          />
          {drag && drag.from !== drag.to ? (
            <ReferenceArea x1={drag.from} x2={drag.to} fill="var(--accent)" fillOpacity={0.15} />
          ) : null}
          {stacks.map(({ key, fill }) => (
            <Bar
              key={key}
              dataKey={key}
              stackId="all"
              fill={fill}
              isAnimationActive={false}
              cursor="pointer"
              {...(!onPick && {
                onClick: ({ payload }: { payload?: unknown }) => {
                  const start = (payload as { start?: number } | undefined)?.start
                  if (start !== undefined) pick(start, start)
                },
              })}
            >
              {starts.map(start => (
                // The current interval is dimmed, because it is not complete.
                <Cell key={start} fillOpacity={isOver(start) ? 1 : 0.55} />
              ))}
            </Bar>
          ))}
          {compared.map(({ key, fill, dash }) => (
            <Line
              key={key}
              dataKey={key}
              stroke={fill}
              strokeWidth={1.5}
              strokeDasharray={dash ?? ''}
              dot={false}
              activeDot={false}
              isAnimationActive={false}
            />
          ))}
        </ComposedChart>
      </ResponsiveContainer>
    </ChartFrame>
  )
}
