import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { type Replica, replicasQuery } from '~/api/fleet.ts'
import { meQuery } from '~/api/me.ts'
import { failureOf } from '~/api/problem.ts'
import { useNow } from '~/lib/clock.ts'
import { useTitle } from '~/lib/title.ts'
import { Figure, Panel } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { StatusPill } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Ago, Elapsed } from '~/ui/Time.tsx'
import { FleetFrame } from './FleetTabs.tsx'

/** A replica that has not signed its row for this long is not counted on. */
const silentAfterMs = 10_000

const silent = (r: Replica, now: number) => now - Date.parse(r.seen_at) > silentAfterMs

const columns: Column<Replica>[] = [
  {
    id: 'address',
    header: 'Replica',
    grow: true,
    growNarrow: true,
    cell: (r) => (
      <span title={r.id}>
        <span className="font-mono text-12">{r.address || r.id}</span>
      </span>
    ),
  },
  { id: 'role', header: 'Role', cell: (r) => <Role r={r} /> },
  { id: 'nodes', header: 'Nodes connected', align: 'right', cell: (r) => r.nodes },
  { id: 'version', header: 'Version', from: 'md', cell: (r) => r.version || '–' },
  {
    id: 'up',
    header: 'Up for',
    align: 'right',
    from: 'sm',
    cell: (r) => <Elapsed from={r.started_at} to={r.seen_at} />,
  },
  { id: 'seen', header: 'Seen', align: 'right', from: 'sm', cell: (r) => <Ago at={r.seen_at} /> },
]

function Role({ r }: { r: Replica }) {
  const now = useNow(5)
  if (silent(r, now)) return <StatusPill tone="red">Silent</StatusPill>
  return r.leader ? (
    <StatusPill tone="green">Leader</StatusPill>
  ) : (
    <StatusPill tone="grey">Standing by</StatusPill>
  )
}

/** ControlPlanePage shows the processes that answer, which of them leads, and who holds the nodes. */
export function ControlPlanePage() {
  useTitle('Control plane')
  const { data: me } = useSuspenseQuery(meQuery)
  const { data, error, refetch, isFetching, dataUpdatedAt } = useQuery({
    ...replicasQuery,
    enabled: me.user.operator,
    retry: false,
  })
  const now = useNow(5)
  const leader = data?.find((r) => r.leader && !silent(r, now))
  return (
    <FleetFrame lead="The processes that answer and decide. Any of them serves any request; one leads.">
      {error && !data ? (
        <Panel>
          <ErrorState
            failure={failureOf(error, 'list the replicas')}
            onRetry={() => void refetch()}
            busy={isFetching}
          />
        </Panel>
      ) : (
        <Stale since={error && data ? dataUpdatedAt : null} now={now}>
          <div className="flex flex-col gap-4">
            <Panel>
              <div className="grid grid-cols-2 gap-4 sm:grid-cols-4">
                {data ? (
                  <>
                    <Figure name="Replicas" value={data.length} />
                    <Figure
                      name="Leader"
                      value={
                        <span className="block truncate text-16" title={leader?.id}>
                          {leader ? leader.address || leader.id : 'None now'}
                        </span>
                      }
                      note={leader ? undefined : 'another takes over within seconds'}
                    />
                    <Figure
                      name="Nodes connected"
                      value={data.reduce((n, r) => n + (silent(r, now) ? 0 : r.nodes), 0)}
                    />
                    <Figure
                      name="Versions"
                      value={new Set(data.map((r) => r.version)).size}
                      note={
                        new Set(data.map((r) => r.version)).size > 1 ? 'an upgrade is under way' : undefined
                      }
                    />
                  </>
                ) : (
                  [0, 1, 2, 3].map((n) => <Bone key={n} className="h-11 w-24" />)
                )}
              </div>
            </Panel>
            <Panel flush title="Replicas">
              {data?.length === 0 ? (
                <Empty icon="fleet" title="No replica has signed in yet">
                  Each process of the control plane signs a row of the database every few seconds.
                </Empty>
              ) : (
                <Table label="Replicas" columns={columns} rows={data} rowKey={(r) => r.id} skeletonRows={2} />
              )}
            </Panel>
            <p className="max-w-[72ch] text-12 text-fg3">
              The leader places work, judges nodes and measures. When it stops answering, another takes over
              in under two seconds; what the old one still tries to write is refused.
            </p>
          </div>
        </Stale>
      )}
    </FleetFrame>
  )
}
