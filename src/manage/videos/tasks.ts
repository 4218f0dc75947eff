import { unitsUsed } from '../../domain/money.ts'
import { THOUSANDTHS, type VideoStatus } from '../../domain/video.ts'
import { listVideos, type VideoFilter, type VideoWithNames } from '../../store/records/videos.ts'
import type { taskContract } from '../contract/tasks.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'

const STATUS = {
  queued: 'QUEUED',
  processing: 'IN_PROGRESS',
  completed: 'SUCCESS',
  failed: 'FAILURE',
} as const satisfies Record<VideoStatus, string>

const ACTION = { made: 'generate', remixed: 'remixGenerate' } as const

const presentTask = (row: VideoWithNames) => ({
  id: row.seq,
  task_id: row.id,
  platform: row.channel_type === null ? '' : String(row.channel_type),
  user_id: row.user_id,
  username: row.username ?? '',
  group: 'default',
  channel_id: row.channel_id,
  quota: unitsUsed(row.cost),
  action: row.remixed_from === null ? ACTION.made : ACTION.remixed,
  status: STATUS[row.status],
  fail_reason: row.status === 'failed' ? (row.error_message ?? '') : '',
  progress: `${Math.floor((row.progress / THOUSANDTHS) * 100)}%`,
  created_at: row.created_time,
  updated_at: row.completed_time ?? row.started_time ?? row.created_time,
  submit_time: row.created_time,
  start_time: row.started_time ?? 0,
  finish_time: row.completed_time ?? 0,
  properties: { origin_model_name: row.model, upstream_model_name: row.sent_model },
})

/** Only administrators see how a job was routed. */
const presentToOwner = (row: VideoWithNames) => {
  const { properties, ...view } = presentTask(row)
  return { ...view, platform: '', channel_id: 0, properties: { ...properties, upstream_model_name: '' } }
}

type TaskFilters = {
  readonly task_id?: string | undefined
  readonly status?: string | undefined
  readonly action?: string | undefined
  readonly start_timestamp?: number | undefined
  readonly end_timestamp?: number | undefined
}

/** Translates filters of existing clients; undefined if no job can match. */
function filterOf({
  task_id,
  status,
  action,
  start_timestamp,
  end_timestamp,
}: TaskFilters): VideoFilter | undefined {
  const statusName = (Object.keys(STATUS) as VideoStatus[]).find(name => STATUS[name] === status)
  const isKnownAction = action === ACTION.made || action === ACTION.remixed
  if ((status !== undefined && !statusName) || (action !== undefined && !isKnownAction)) return undefined
  return {
    id: task_id,
    status: statusName,
    isRemix: action === undefined ? undefined : action === ACTION.remixed,
    from: start_timestamp || undefined,
    to: end_timestamp || undefined,
  }
}

const NONE = { items: [], total: 0 }

/** Video jobs as existing clients list tasks (docs/reference/management-api.md: Video routes of management). */
export function createTaskHandlers({ db }: Deps): Handlers<typeof taskContract> {
  return {
    listTasks: async ({ query: { paging, channel_id, platform, ...filters } }) => {
      const filter = filterOf(filters)
      const type = Number(platform ?? 0)
      // Platforms are channel types as numbers. Other platforms of existing clients have no jobs.
      const jobs =
        filter && Number.isSafeInteger(type)
          ? listVideos(
              db,
              { ...filter, channelId: channel_id || undefined, channelType: type || undefined },
              paging,
            )
          : NONE
      return presentPage(await jobs, paging, presentTask)
    },
    listOwnTasks: async ({ actor, query: { paging, ...filters } }) => {
      const filter = filterOf(filters)
      const jobs = filter ? listVideos(db, { ...filter, userId: actor.id }, paging) : NONE
      return presentPage(await jobs, paging, presentToOwner)
    },
  }
}
