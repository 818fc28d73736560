import { useQuery } from '@tanstack/react-query'
import { quotasQuery } from '~/api/me.ts'
import { formatMiB, formatNumber } from '~/lib/format.ts'
import { Panel } from '~/ui/Layout.tsx'
import { Bone } from '~/ui/State.tsx'

const kinds = {
  instances: { name: 'Instances', unit: (n: number) => formatNumber(n) },
  gpu_milli: { name: 'GPUs', unit: (n: number) => formatNumber(n / 1000, 3) },
  vcpu: { name: 'vCPU', unit: (n: number) => formatNumber(n) },
  memory_mib: { name: 'Memory', unit: formatMiB },
} as const

/** Limits shows what the project holds now beside what it may hold. */
export function Limits({ project, simulated }: { project: string; simulated: boolean }) {
  const { data, error } = useQuery(quotasQuery(project))
  if (error) return null
  return (
    <Panel
      title="Limits of the project"
      aside={`Held or waited for now${simulated ? ', simulated ones too' : ''}`}
    >
      <dl className="grid gap-x-8 gap-y-3 sm:grid-cols-2 lg:grid-cols-4">
        {(['instances', 'gpu_milli', 'vcpu', 'memory_mib'] as const).map((kind) => {
          const q = data?.find((d) => d.resource === kind)
          const { name, unit } = kinds[kind]
          const limit = q?.limit ?? null
          const share = q && limit ? Math.min(1, q.used / limit) : 0
          return (
            <div key={kind}>
              <dt className="text-12 text-fg3">{name}</dt>
              <dd className="text-13 tabular-nums">
                {q ? (
                  <>
                    {unit(q.used)}{' '}
                    <span className="text-fg3">{limit === null ? '· no limit' : `of ${unit(limit)}`}</span>
                    <span
                      aria-hidden="true"
                      className="mt-1.5 block h-1 overflow-hidden rounded-full bg-sunken"
                    >
                      {limit !== null && (
                        <span
                          className={share >= 1 ? 'block h-full bg-amber' : 'block h-full bg-fg3'}
                          style={{ width: `${share * 100}%` }}
                        />
                      )}
                    </span>
                  </>
                ) : (
                  <Bone className="mt-1 w-24" />
                )}
              </dd>
            </div>
          )
        })}
      </dl>
    </Panel>
  )
}
