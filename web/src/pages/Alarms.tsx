import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { alarmAcknowledge, alarmsQuery, nodesQuery } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { Button } from '~/ui/Button.tsx'
import { Notice } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { Ago } from '~/ui/Time.tsx'
import { toast } from '~/ui/Toast.tsx'

/** So many are shown above the map; the others are a click away. */
const most = 3

/** Alarms are what nobody has seen yet, the worst first. */
export function Alarms() {
  const { data } = useQuery(alarmsQuery)
  const { data: nodes } = useQuery(nodesQuery)
  const acknowledge = useMutation({
    mutationFn: alarmAcknowledge,
    onSuccess: () => void queryClient.invalidateQueries({ queryKey: ['fleet', 'alarms'] }),
    onError: (e) => toast('red', failureOf(e, 'acknowledge it').message),
  })
  const open = (data ?? [])
    .filter((a) => a.state === 'open')
    .sort((a, b) => a.severity.localeCompare(b.severity) || b.opened_at.localeCompare(a.opened_at))
  if (open.length === 0) return null
  return (
    <section aria-label="Alarms" className="flex flex-col gap-2">
      {open.slice(0, most).map((a) => (
        <Notice
          key={a.id}
          tone={a.severity === 'critical' ? 'red' : 'amber'}
          action={
            a.state === 'open' && (
              <Button
                small
                busy={acknowledge.isPending && acknowledge.variables === a.id}
                onClick={() => acknowledge.mutate(a.id)}
              >
                Acknowledge
              </Button>
            )
          }
        >
          <p>{a.message}</p>
          <p className="text-12 text-fg3">
            {a.severity}, since <Ago at={a.opened_at} />{' '}
            {nodes?.some((n) => n.id === a.subject && n.simulated) && (
              <Tag title="Its node is simulated">sim</Tag>
            )}
          </p>
        </Notice>
      ))}
      {open.length > most && (
        <p className="text-12 text-fg3">
          <Link to="/fleet/alarms" className="link">
            {open.length - most} more open
          </Link>
        </p>
      )}
    </section>
  )
}
