import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import {
  type Alarm,
  alarmAcknowledge,
  alarmsQuery,
  allAlarmsQuery,
  type Node,
  nodesQuery,
} from '~/api/fleet.ts'
import { meQuery } from '~/api/me.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { useNow } from '~/lib/clock.ts'
import { useTitle } from '~/lib/title.ts'
import { Button } from '~/ui/Button.tsx'
import { SearchField, SelectField } from '~/ui/Field.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { StatusPill, Tag } from '~/ui/StatusPill.tsx'
import { Ago } from '~/ui/Time.tsx'
import { toast } from '~/ui/Toast.tsx'
import { FleetFrame } from './FleetTabs.tsx'

const states = ['open', 'acknowledged', 'cleared'] as const
const severities = ['critical', 'warning'] as const
export type AlarmSearch = { q?: string; state?: Alarm['state']; severity?: Alarm['severity'] }

/** AlarmsPage lists what needs a person; what is cleared is looked up when it is asked for. */
export function AlarmsPage() {
  useTitle('Alarms')
  const { data: me } = useSuspenseQuery(meQuery)
  const search = useSearch({ from: '/app/fleet/alarms' })
  const navigate = useNavigate({ from: '/fleet/alarms' })
  const { data, error, refetch, isFetching, dataUpdatedAt } = useQuery({
    ...(search.state === 'cleared' ? allAlarmsQuery : alarmsQuery),
    enabled: me.user.operator,
  })
  const { data: nodes } = useQuery({ ...nodesQuery, enabled: me.user.operator })
  const now = useNow(5)
  const acknowledge = useMutation({
    mutationFn: alarmAcknowledge,
    onSuccess: () => void queryClient.invalidateQueries({ queryKey: ['fleet', 'alarms'] }),
    onError: (e) => toast('red', failureOf(e, 'acknowledge it').message),
  })
  const go = (change: AlarmSearch) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  const node = new Map(nodes?.map((n) => [n.id, n]))
  const rows = data
    ?.filter(
      (a) =>
        (search.state ? a.state === search.state : a.state !== 'cleared') &&
        (!search.severity || a.severity === search.severity) &&
        (!search.q ||
          `${a.message} ${a.key} ${a.subject} ${node.get(a.subject)?.name ?? ''}`
            .toLowerCase()
            .includes(search.q.toLowerCase())),
    )
    .sort((a, b) => b.opened_at.localeCompare(a.opened_at))
  const filtered = Boolean(search.q || search.severity || search.state)
  return (
    <FleetFrame lead="What needs a person. An acknowledged alarm stays until its cause is gone.">
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <SearchField
          label="Search alarms"
          placeholder="Search"
          className="w-full sm:w-64"
          value={search.q ?? ''}
          onChange={(e) => go({ q: e.target.value || undefined })}
        />
        <SelectField
          label="State"
          hideLabel
          className="min-w-0 flex-1 sm:w-44 sm:flex-none"
          value={search.state ?? ''}
          onChange={(e) => go({ state: states.find((s) => s === e.target.value) })}
        >
          <option value="">Not cleared</option>
          <option value="open">Open</option>
          <option value="acknowledged">Acknowledged</option>
          <option value="cleared">Cleared</option>
        </SelectField>
        <SelectField
          label="Severity"
          hideLabel
          className="min-w-0 flex-1 sm:w-36 sm:flex-none"
          value={search.severity ?? ''}
          onChange={(e) => go({ severity: severities.find((s) => s === e.target.value) })}
        >
          <option value="">All severities</option>
          <option value="critical">Critical</option>
          <option value="warning">Warning</option>
        </SelectField>
      </div>
      <Stale since={error && data ? dataUpdatedAt : null} now={now}>
        <Panel flush>
          {error && !data ? (
            <ErrorState
              failure={failureOf(error, 'list the alarms')}
              onRetry={() => void refetch()}
              busy={isFetching}
            />
          ) : !rows ? (
            <div className="flex flex-col gap-3 p-4">
              {[0, 1, 2].map((n) => (
                <Bone key={n} className="h-8 w-full" />
              ))}
            </div>
          ) : rows.length === 0 ? (
            filtered ? (
              <Empty
                icon="search"
                title="No alarm matches"
                action={
                  <Button onClick={() => go({ q: undefined, state: undefined, severity: undefined })}>
                    Clear the filters
                  </Button>
                }
              >
                Another state or severity may have some.
              </Empty>
            ) : (
              <Empty icon="check" title="Nothing needs a person">
                Lost nodes, broken cards, strays after a restore and full disks show here by themselves.
              </Empty>
            )
          ) : (
            <ul aria-label="Alarms" className="divide-y divide-line">
              {rows.map((a) => (
                <AlarmRow
                  key={a.id}
                  a={a}
                  node={node.get(a.subject)}
                  busy={acknowledge.isPending && acknowledge.variables === a.id}
                  onAcknowledge={() => acknowledge.mutate(a.id)}
                />
              ))}
            </ul>
          )}
        </Panel>
      </Stale>
    </FleetFrame>
  )
}

function AlarmRow({
  a,
  node,
  busy,
  onAcknowledge,
}: {
  a: Alarm
  node: Node | undefined
  busy: boolean
  onAcknowledge: () => void
}) {
  const quiet = a.state !== 'open'
  return (
    <li className="flex flex-wrap items-start gap-x-4 gap-y-1.5 px-4 py-2.5 text-13">
      <span className="w-24 shrink-0 pt-px">
        <StatusPill tone={a.state === 'cleared' ? 'grey' : a.severity === 'critical' ? 'red' : 'amber'}>
          {a.severity === 'critical' ? 'Critical' : 'Warning'}
        </StatusPill>
      </span>
      <div className={`min-w-0 flex-1 basis-64 ${quiet ? 'text-fg2' : ''}`}>
        <p className="break-words">{a.message}</p>
        <p className="flex flex-wrap gap-x-3 text-12 text-fg3">
          {node && (
            <span className="inline-flex items-center gap-1.5">
              <Link to="/fleet/nodes/$node" params={{ node: node.name }} className="link">
                {node.name}
              </Link>
              {node.simulated && <Tag title="This node is simulated">sim</Tag>}
            </span>
          )}
          <span>
            since <Ago at={a.opened_at} />
          </span>
          {a.acknowledged_at && a.state === 'acknowledged' && (
            <span>
              acknowledged <Ago at={a.acknowledged_at} />
            </span>
          )}
          {a.cleared_at && (
            <span>
              cleared <Ago at={a.cleared_at} />
            </span>
          )}
        </p>
      </div>
      {a.state === 'open' && (
        <Button small busy={busy} onClick={onAcknowledge}>
          Acknowledge
        </Button>
      )}
    </li>
  )
}
