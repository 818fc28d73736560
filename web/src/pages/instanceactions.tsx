import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { type Instance, type InstanceAction, instanceAct } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { plural } from '~/lib/format.ts'
import { holdsPlace, instanceCan } from '~/lib/instancestate.ts'
import { gpuWords } from '~/lib/shape.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { toast } from '~/ui/Toast.tsx'

const done: Record<InstanceAction, string> = {
  start: 'is queued to start',
  stop: 'is stopping',
  restart: 'is restarting',
  delete: 'is being deleted',
}

/** useInstanceAction runs one action on one or many, and says what became of each. */
export function useInstanceAction(project: string) {
  return useMutation({
    mutationFn: async ({ action, targets }: { action: InstanceAction; targets: readonly Instance[] }) => {
      const results = await Promise.allSettled(targets.map((i) => instanceAct(project, i.id, action)))
      results.forEach((r, n) => {
        const i = targets[n]
        if (!i || r.status === 'fulfilled') return
        const f = failureOf(r.reason, `${action} ${i.name}`)
        toast('red', `${f.title}: ${f.message}`, f.requestId && `Request ${f.requestId}`)
      })
      const ok = targets.filter((_, n) => results[n]?.status === 'fulfilled')
      if (ok.length === 1 && ok[0]) toast('green', `${ok[0].name} ${done[action]}`)
      else if (ok.length > 1)
        toast('green', `${plural(ok.length, 'instance')}: ${done[action].replace(/^is /, '')}`)
      await Promise.all([
        queryClient.invalidateQueries({ queryKey: ['instances', project] }),
        queryClient.invalidateQueries({ queryKey: ['instance', project] }),
      ])
      return ok.length
    },
  })
}

const allowed = (action: InstanceAction, i: Instance) => instanceCan[action](i.state) === null

/** ConfirmAction says what is lost and what is kept before anything is stopped or deleted. */
export function ConfirmAction({
  action,
  targets,
  onClose,
  onConfirm,
  busy,
}: {
  action: 'stop' | 'delete' | null
  targets: readonly Instance[]
  onClose: () => void
  onConfirm: (targets: readonly Instance[]) => void
  busy: boolean
}) {
  const [shown, setShown] = useState<'stop' | 'delete'>('stop')
  if (action && action !== shown) setShown(action) // keep the words while the dialog closes
  const can = targets.filter((i) => allowed(shown, i))
  const skipped = targets.filter((i) => !allowed(shown, i))
  const gpus = can.filter((i) => holdsPlace(i.state) && i.gpu_count > 0)
  const one = can.length === 1 ? can[0] : undefined
  const what = one ? `“${one.name}”` : plural(can.length, 'instance')
  const release = gpus.length > 0
  const verb =
    shown === 'stop'
      ? release
        ? 'Stop and release GPU'
        : 'Stop'
      : can.length > 1
        ? `Delete ${can.length}`
        : 'Delete'
  return (
    <Dialog
      open={action !== null}
      onClose={onClose}
      title={`${shown === 'stop' ? 'Stop' : 'Delete'} ${what}?`}
      actions={
        <>
          <Button onClick={onClose}>Keep as is</Button>
          <Button
            look={shown === 'delete' ? 'danger' : 'primary'}
            busy={busy}
            reason={can.length === 0 ? 'None of the selected instances allows it' : null}
            onClick={() => onConfirm(can)}
          >
            {verb}
          </Button>
        </>
      }
    >
      {can.length > 1 && (
        <ul className="mb-3 max-h-32 list-disc overflow-y-auto pl-5 text-fg">
          {can.map((i) => (
            <li key={i.id}>{i.name}</li>
          ))}
        </ul>
      )}
      <dl className="flex flex-col gap-2.5">
        <div>
          <dt className="font-medium text-fg">Lost</dt>
          <dd>
            Everything written inside the container since it started
            {release && `, and its place on the GPU (${summary(gpus)}), which others may take`}.
          </dd>
        </div>
        <div>
          <dt className="font-medium text-fg">Kept</dt>
          <dd>
            {shown === 'stop'
              ? 'Its name, image, command and environment: it can be started again and then waits for a free GPU like any other. Its events and usage stay.'
              : 'The image, and what it has cost: usage is never deleted.'}
          </dd>
        </div>
        {can.some((i) => i.state === 'running') && (
          <div>
            <dt className="font-medium text-fg">Cost</dt>
            <dd>Charging ends as soon as it has stopped.</dd>
          </div>
        )}
        {skipped.length > 0 && (
          <div>
            <dt className="font-medium text-fg">Left alone</dt>
            <dd>{skipped.map((i) => `${i.name} (${i.state})`).join(', ')}</dd>
          </div>
        )}
      </dl>
    </Dialog>
  )
}

function summary(list: readonly Instance[]): string {
  const words = [...new Set(list.map(gpuWords))]
  return words.length > 3 ? `${words.slice(0, 3).join(', ')} and more` : words.join(', ')
}
