import { useQuery } from '@tanstack/react-query'
import { pricesQuery } from '~/api/fleet.ts'
import type { Instance } from '~/api/instance.ts'
import { diskPrice } from '~/lib/board.ts'
import { formatHourly, formatMiB, sentence } from '~/lib/format.ts'
import { Panel } from '~/ui/Layout.tsx'
import { StatusPill, type Tone } from '~/ui/StatusPill.tsx'

type Volume = NonNullable<Instance['volumes']>[number]

const roleWord: Record<Volume['role'], string> = { root: 'Disk', home: 'Home folder' }
const states: Record<Volume['state'], { tone: Tone; word: string }> = {
  pending: { tone: 'amber', word: 'Made at the first start' },
  present: { tone: 'green', word: 'Kept' },
  deleting: { tone: 'blue', word: 'Being deleted' },
  deleted: { tone: 'grey', word: 'Deleted' },
  lost: { tone: 'red', word: 'Lost' },
}

/** InstanceVolumes are its data that outlives a stop, how full it is and what it costs. */
export function InstanceVolumes({ instance: i }: { instance: Instance }) {
  const { data: prices } = useQuery(pricesQuery)
  const volumes = i.volumes ?? []
  if (volumes.length === 0) return null
  return (
    <Panel title={volumes.length > 1 ? 'Volumes' : 'Volume'} aside="Kept over stops, gone with the instance">
      <ul className="flex flex-col gap-4">
        {volumes.map((v) => (
          <VolumeLine key={v.id} v={v} hourly={diskPrice(prices, v.size_mib)} currency={i.currency} />
        ))}
      </ul>
    </Panel>
  )
}

function VolumeLine({ v, hourly, currency }: { v: Volume; hourly: number | undefined; currency?: string }) {
  const { tone, word } = states[v.state]
  const share =
    v.used_mib === undefined || v.state === 'lost' ? null : Math.min(100, (v.used_mib / v.size_mib) * 100)
  const full = share !== null && share >= 90
  return (
    <li>
      <div className="flex flex-wrap items-center justify-between gap-x-4">
        <span className="text-13 font-medium">{roleWord[v.role]}</span>
        <StatusPill tone={tone}>{word}</StatusPill>
      </div>
      <div aria-hidden="true" className="mt-1.5 h-1.5 overflow-hidden rounded-full bg-sunken">
        {share !== null && (
          <div
            className={`h-full ${full ? 'bg-red' : 'bg-green'}`}
            style={{ width: `${Math.max(share, 1)}%` }}
          />
        )}
      </div>
      <p className="mt-1 flex flex-wrap justify-between gap-x-4 text-12 text-fg3 tabular-nums">
        <span>
          {v.state === 'lost'
            ? `${formatMiB(v.size_mib)}, not charged`
            : v.used_mib === undefined
              ? `${formatMiB(v.size_mib)}, use not measured yet`
              : `${formatMiB(v.used_mib)} of ${formatMiB(v.size_mib)} used`}
        </span>
        <span>
          {hourly !== undefined &&
            v.state !== 'deleted' &&
            v.state !== 'lost' &&
            `${formatHourly(hourly, currency)} while it exists`}
        </span>
      </p>
      {full && (
        <p className="mt-1 text-12 text-red">
          Nearly full. Make room, or stop it and choose a shape with a larger disk.
        </p>
      )}
      {v.message && <p className="mt-1 text-12 text-fg2">{sentence(v.message)}.</p>}
    </li>
  )
}
