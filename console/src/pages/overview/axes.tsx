import { CartesianGrid, XAxis, YAxis } from 'recharts'
import { axisMoment } from '../../look/format.ts'

const DAY_S = 86_400
const TICK = { fill: 'var(--ink-3)', fontSize: 12 }
const isByDay = (stepS: number) => stepS >= DAY_S / 4

type AxesProps = {
  readonly stepS: number
  readonly onAxis: (value: number) => string
  readonly isWhole?: boolean
}

/** Axes and grid lines of the charts. */
export const Axes = ({ stepS, onAxis, isWhole = false }: AxesProps) => (
  <>
    <CartesianGrid vertical={false} stroke="var(--line)" />
    <XAxis
      dataKey="start"
      tickFormatter={start => axisMoment(start, isByDay(stepS))}
      tick={TICK}
      stroke="var(--line)"
      minTickGap={32}
    />
    <YAxis
      width="auto"
      allowDecimals={!isWhole}
      tickFormatter={onAxis}
      tick={TICK}
      stroke="var(--line)"
      tickCount={4}
    />
  </>
)
