import { useMutation, useQuery } from '@tanstack/react-query'
import { alarmAcknowledge, alarmsQuery } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { Button } from '~/ui/Button.tsx'
import { Notice } from '~/ui/State.tsx'
import { Ago } from '~/ui/Time.tsx'
import { toast } from '~/ui/Toast.tsx'

/** Alarms are what needs a person, newest first; an acknowledged one stays until its cause is gone. */
export function Alarms() {
  const { data } = useQuery(alarmsQuery)
  const acknowledge = useMutation({
    mutationFn: alarmAcknowledge,
    onSuccess: () => void queryClient.invalidateQueries({ queryKey: ['fleet', 'alarms'] }),
    onError: (e) => toast('red', failureOf(e, 'acknowledge it').message),
  })
  const open = (data ?? []).filter((a) => a.state !== 'cleared')
  if (open.length === 0) return null
  return (
    <section aria-label="Alarms" className="flex flex-col gap-2">
      {open.map((a) => (
        <Notice
          key={a.id}
          tone={a.state === 'acknowledged' ? 'grey' : a.severity === 'critical' ? 'red' : 'amber'}
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
            {a.severity}, {a.state}, since <Ago at={a.opened_at} />
          </p>
        </Notice>
      ))}
    </section>
  )
}
