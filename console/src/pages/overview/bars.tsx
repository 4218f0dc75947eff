import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import {
  Bar,
  BarChart,
  CartesianGrid,
  ReferenceArea,
  ResponsiveContainer,
  Tooltip,
  XAxis,
  YAxis,
} from 'recharts'
import { moment } from '../../look/format.ts'

export type Stack = {
  readonly key: string
  readonly name: string
  readonly fill: string
  readonly values: readonly number[]
}

export type BarsProps = {
  readonly starts: readonly number[]
  readonly stepS: number
  /** The first lies at the bottom. */
  readonly stacks: readonly Stack[]
  readonly format: (value: number) => string
  readonly onAxis: (value: number) => string
  readonly summary: string
  /** Told where a stretch of bars was chosen, by a click or a drag; otherwise a bar leads to its requests. */
  readonly onPick?: (firstStart: number, lastStart: number) => void
}

const DAY_S = 86_400

/** Counts and money by equal pieces of time, from zero, stacked; a bar leads to the requests behind it. */
export function Bars({ starts, stepS, stacks, format, onAxis, summary, onPick }: BarsProps) {
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
  const data = starts.map((start, index) => ({
    start,
    ...Object.fromEntries(stacks.map(({ key, values }) => [key, values[index] ?? 0])),
  }))
  const isEmpty = stacks.every(({ values }) => values.every(value => value === 0))
  const label = (start: number) =>
    new Intl.DateTimeFormat(
      document.documentElement.lang,
      stepS >= DAY_S / 4
        ? { month: 'short', day: 'numeric' }
        : { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
    ).format(start * 1000)
  const tick = { fill: 'var(--ink-3)', fontSize: 12 }
  return (
    <div className="flex flex-col gap-2 p-4">
      <p className="text-table text-ink-2">{summary}</p>
      <div className="h-44" aria-hidden="true">
        <ResponsiveContainer width="100%" height="100%">
          <BarChart
            data={data}
            accessibilityLayer={false}
            margin={{ top: 4, right: 0, bottom: 0, left: 0 }}
            {...(onPick && {
              onMouseDown: ({ activeLabel }: { activeLabel?: string | number | undefined }) =>
                activeLabel !== undefined && setDrag({ from: Number(activeLabel), to: Number(activeLabel) }),
              onMouseMove: ({ activeLabel }: { activeLabel?: string | number | undefined }) =>
                drag && activeLabel !== undefined && setDrag({ ...drag, to: Number(activeLabel) }),
              onMouseUp: endDrag,
              onMouseLeave: () => setDrag(undefined),
              className: 'cursor-pointer select-none',
            })}
          >
            <CartesianGrid vertical={false} stroke="var(--line)" />
            <XAxis dataKey="start" tickFormatter={label} tick={tick} stroke="var(--line)" minTickGap={32} />
            <YAxis
              width="auto"
              tickFormatter={isEmpty ? () => '' : onAxis}
              tick={tick}
              stroke="var(--line)"
              tickCount={4}
            />
            <Tooltip
              cursor={{ fill: 'var(--sunken)' }}
              content={({ active, payload }) => {
                const start = payload?.[0]?.payload?.start as number | undefined
                if (!active || start === undefined) return null
                const at = starts.indexOf(start)
                return (
                  <div className="sheet px-3 py-1.5 text-table shadow-float">
                    <p className="text-ink-3">{moment(start)}</p>
                    {[...stacks].reverse().map(({ key, name, fill, values }) => (
                      <p key={key} className="flex items-center gap-2">
                        <Swatch fill={fill} />
                        <span className="grow">{name}</span>
                        <span className="font-medium">{format(values[at] ?? 0)}</span>
                      </p>
                    ))}
                  </div>
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
              />
            ))}
          </BarChart>
        </ResponsiveContainer>
      </div>
      <ul className="flex flex-wrap gap-x-4 gap-y-1 text-label text-ink-2">
        {stacks.map(({ key, name, fill }) => (
          <li key={key} className="flex items-center gap-1.5">
            <Swatch fill={fill} />
            {name}
          </li>
        ))}
      </ul>
      <details>
        <summary className="text-label text-ink-3">{t('overview.as_table')}</summary>
        <div className="relative max-h-60 overflow-auto">
          <table className="mt-2 w-full text-table">
            <thead>
              <tr>
                <th scope="col" className="text-left font-medium text-ink-3">
                  {t('usage.time')}
                </th>
                {stacks.map(({ key, name }) => (
                  <th key={key} scope="col" className="px-2 text-right font-medium text-ink-3">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {starts.map((start, index) => (
                <tr key={start}>
                  <td className="whitespace-nowrap">{moment(start)}</td>
                  {stacks.map(({ key, values }) => (
                    <td key={key} className="px-2 text-right">
                      {format(values[index] ?? 0)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </div>
  )
}

const Swatch = ({ fill }: { readonly fill: string }) => (
  <svg width="10" height="10" aria-hidden="true" className="shrink-0">
    <rect width="10" height="10" fill={fill} />
  </svg>
)
