import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { csvText, fileOf } from '../../look/csv.ts'
import { moment } from '../../look/format.ts'
import { Download } from '../../look/icons.ts'

/** One series of a chart; null marks a gap. */
export type Track = {
  readonly key: string
  readonly name: string
  readonly fill: string
  readonly values: readonly (number | null)[]
  /** Dash pattern of a line. */
  readonly dash?: string
}

type FrameProps = {
  readonly starts: readonly number[]
  readonly tracks: readonly Track[]
  readonly format: (value: number) => string
  readonly summary: string
  readonly isLines?: boolean
  readonly children: ReactNode
}

const figure = (format: FrameProps['format'], value: number | null | undefined) =>
  value === null || value === undefined ? '–' : format(value)

/** The data of a chart as CSV, with ISO times. */
function chartFile({ starts, tracks }: Pick<FrameProps, 'starts' | 'tracks'>): string {
  const head = ['time', ...tracks.map(({ name }) => name)]
  const lines = starts.map((start, index) => [
    new Date(start * 1000).toISOString(),
    ...tracks.map(({ values }) => values[index]),
  ])
  return fileOf(csvText([head, ...lines]))
}

/** A chart with its summary, its legend, and its data as table and CSV. */
export function ChartFrame({ starts, tracks, format, summary, isLines = false, children }: FrameProps) {
  const { t } = useTranslation()
  return (
    <div className="flex flex-col gap-2 p-4">
      <p className="text-table text-ink-2">{summary}</p>
      <div className="h-44" aria-hidden="true">
        {children}
      </div>
      <ul className="flex flex-wrap gap-x-4 gap-y-1 text-label text-ink-2">
        {tracks.map(track => (
          <li key={track.key} className="flex items-center gap-1.5">
            <Swatch track={track} isLine={isLines || track.dash !== undefined} />
            {track.name}
          </li>
        ))}
      </ul>
      <details>
        <summary className="text-label text-ink-3">{t('overview.as_table')}</summary>
        <a
          download="chart.csv"
          href={chartFile({ starts, tracks })}
          className="mt-2 inline-flex min-h-6 items-center gap-1.5 text-label"
        >
          <Download size={14} aria-hidden />
          {t('usage.export.csv')}
        </a>
        <div className="relative max-h-60 overflow-auto">
          <table className="mt-2 w-full text-table">
            <thead>
              <tr>
                <th scope="col" className="text-left font-medium text-ink-3">
                  {t('usage.time')}
                </th>
                {tracks.map(({ key, name }) => (
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
                  {tracks.map(({ key, values }) => (
                    <td key={key} className="px-2 text-right">
                      {figure(format, values[index])}
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

type TipProps = {
  readonly start: number
  readonly at: number
  readonly tracks: readonly Track[]
  readonly format: (value: number) => string
  readonly note?: string | undefined
  readonly isLines?: boolean
}

/** The tooltip of a chart. */
export const Tip = ({ start, at, tracks, format, note, isLines = false }: TipProps) => (
  <div className="sheet px-3 py-1.5 text-table shadow-float">
    <p className="text-ink-3">
      {moment(start)}
      {note ? ` · ${note}` : null}
    </p>
    {tracks.map(track => (
      <p key={track.key} className="flex items-center gap-2">
        <Swatch track={track} isLine={isLines || track.dash !== undefined} />
        <span className="grow">{track.name}</span>
        <span className="font-medium">{figure(format, track.values[at])}</span>
      </p>
    ))}
  </div>
)

const Swatch = ({ track, isLine }: { readonly track: Track; readonly isLine: boolean }) => (
  <svg width={isLine ? 18 : 10} height="10" aria-hidden="true" className="shrink-0">
    {isLine ? (
      <path d="M0 5h18" stroke={track.fill} strokeWidth="2" strokeDasharray={track.dash} />
    ) : (
      <rect width="10" height="10" fill={track.fill} />
    )}
  </svg>
)
