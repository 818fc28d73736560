import { useMutation, useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { pricesQuery } from '~/api/fleet.ts'
import { type ActionOptions, type Instance, type InstanceAction, instanceAct } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { diskPrice } from '~/lib/board.ts'
import { dataKept } from '~/lib/createform.ts'
import { formatHourly, plural } from '~/lib/format.ts'
import { holdsPlace, instanceCan } from '~/lib/instancestate.ts'
import { gpuWords } from '~/lib/shape.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { toast } from '~/ui/Toast.tsx'
import { OnStopField } from './AfterFields.tsx'

const done: Record<InstanceAction, string> = {
  start: 'is queued to start',
  stop: 'is stopping',
  restart: 'is restarting',
  delete: 'is being deleted',
}

/** useInstanceAction runs one action on one or many, and says what became of each. */
export function useInstanceAction(project: string) {
  return useMutation({
    mutationFn: async ({
      action,
      targets,
      options,
    }: {
      action: InstanceAction
      targets: readonly Instance[]
      options?: ActionOptions
    }) => {
      const results = await Promise.allSettled(
        targets.map((i) => instanceAct(project, i.id, action, options)),
      )
      results.forEach((r, n) => {
        const i = targets[n]
        if (!i || r.status === 'fulfilled') return
        const f = failureOf(r.reason, `${action} ${i.name}`)
        toast('red', `${f.title}: ${f.message}`, f.requestId && `Request ${f.requestId}`)
      })
      const ok = targets.filter((_, n) => results[n]?.status === 'fulfilled')
      if (ok.length === 1 && ok[0])
        toast(
          'green',
          `${ok[0].name} ${ok[0].held && action === 'stop' ? `has released its ${ok[0].gpu_count > 0 ? 'GPU' : 'place'}` : done[action]}`,
        )
      else if (ok.length > 1)
        toast('green', `${plural(ok.length, 'instance')}: ${done[action].replace(/^is /, '')}`)
      await Promise.all([
        queryClient.invalidateQueries({ queryKey: ['instances', project] }),
        // A deleted one is left, not asked for again.
        action !== 'delete' && queryClient.invalidateQueries({ queryKey: ['instance', project] }),
      ])
      return ok.length
    },
  })
}

const allowed = (asked: Asked, i: Instance) =>
  !i.job_id && (asked === 'release' ? i.held && i.state === 'stopped' : instanceCan[asked](i.state) === null)

/** What is asked about before it is done. */
export type Asked = 'stop' | 'delete' | 'release'

/** ConfirmAction says what is lost and what is kept before anything is stopped, released or deleted. */
export function ConfirmAction({
  action,
  targets,
  onClose,
  onConfirm,
  busy,
}: {
  action: Asked | null
  targets: readonly Instance[]
  onClose: () => void
  onConfirm: (targets: readonly Instance[], options: ActionOptions) => void
  busy: boolean
}) {
  const [shown, setShown] = useState<Asked>('stop')
  const [gpu, setGPU] = useState<'release' | 'hold' | null>(null)
  const { data: prices } = useQuery({ ...pricesQuery, enabled: action !== null })
  if (action && action !== shown) setShown(action) // keep the words while the dialog closes
  const can = targets.filter((i) => allowed(shown, i))
  const skipped = targets.filter((i) => !allowed(shown, i))
  const one = can.length === 1 ? can[0] : undefined
  const choice =
    one?.kind === 'vm' && shown === 'stop' && one.state !== 'queued' ? (gpu ?? one.on_stop) : null
  const gpus = can.filter((i) => (holdsPlace(i.state) || i.held) && i.gpu_count > 0)
  const release = gpus.length > 0 && choice !== 'hold'
  const what = one ? `“${one.name}”` : plural(can.length, 'instance')
  const close = () => {
    setGPU(null)
    onClose()
  }
  const thing = can.some((i) => i.gpu_count > 0) ? 'GPU' : 'place'
  const title = {
    stop: `Stop ${what}?`,
    delete: `Delete ${what}?`,
    release: `Release the ${thing} of ${what}?`,
  }[shown]
  const verb = {
    stop: choice === 'hold' ? 'Stop and hold GPU' : release ? 'Stop and release GPU' : 'Stop',
    delete: can.length > 1 ? `Delete ${can.length}` : 'Delete',
    release: `Release ${thing}`,
  }[shown]
  const disk = one && dataKept(one.kind) ? diskPrice(prices, one.disk_mib) : undefined
  return (
    <Dialog
      open={action !== null}
      onClose={close}
      wide={choice !== null}
      title={title}
      actions={
        <>
          <Button onClick={close}>Keep as is</Button>
          <Button
            look={shown === 'delete' ? 'danger' : 'primary'}
            busy={busy}
            reason={can.length === 0 ? 'None of the selected instances allows it' : null}
            onClick={() => {
              onConfirm(can, shown === 'release' ? { gpu: 'release' } : choice ? { gpu: choice } : {})
              setGPU(null)
            }}
          >
            {choice === 'hold' && one?.gpu_count === 0 ? 'Stop and hold its place' : verb}
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
      {choice && one && (
        <div className="mb-4 text-fg">
          <OnStopField
            name="stop-choice"
            value={choice}
            onChange={setGPU}
            price={one.price_per_hour_micros}
            currency={one.currency}
            gpus={one.gpu_count}
            disk={disk}
          />
        </div>
      )}
      <dl className="flex flex-col gap-2.5">
        <Said term="Lost">{lostWords(shown, can, release ? summary(gpus) : '')}</Said>
        <Said term="Kept">{keptWords(shown, can, choice === 'hold')}</Said>
        {can.some((i) => i.state === 'running' || i.held) && (
          <Said term="Cost">{costWords(shown, can, choice === 'hold')}</Said>
        )}
        {!one && shown === 'stop' && can.some((i) => i.kind === 'vm' && i.on_stop === 'hold') && (
          <Said term="GPUs held">
            {can
              .filter((i) => i.kind === 'vm' && i.on_stop === 'hold')
              .map((i) => i.name)
              .join(', ')}
            : set to hold when stopped, and charged on.
          </Said>
        )}
        {skipped.length > 0 && (
          <Said term="Left alone">
            {skipped
              .map((i) => `${i.name} (${i.job ? `comes and goes with job ${i.job}` : i.state})`)
              .join(', ')}
          </Said>
        )}
      </dl>
    </Dialog>
  )
}

function Said({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div>
      <dt className="font-medium text-fg">{term}</dt>
      <dd>{children}</dd>
    </div>
  )
}

const has = (list: readonly Instance[], kind: string) => list.some((i) => i.kind === kind)

function lostWords(asked: Asked, can: readonly Instance[], place: string): string {
  const lost: string[] = []
  if (asked !== 'release') {
    if (has(can, 'container')) lost.push('everything written inside the container since it started')
    if (has(can, 'notebook')) lost.push('running kernels and what they hold in memory')
    if (has(can, 'vm'))
      lost.push(
        asked === 'delete'
          ? 'what runs in the machine'
          : 'what runs in the machine: it is asked to shut down first',
      )
    if (asked === 'delete' && has(can, 'notebook'))
      lost.push('its home folder with all that is in it, for good')
    if (asked === 'delete' && has(can, 'vm')) lost.push('its disk with all that is on it, for good')
  }
  if (place) lost.push(`the place on the GPU (${place}), which others may take`)
  if (lost.length === 0) return 'Nothing.'
  const text = lost.join('; ')
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
}

function keptWords(asked: Asked, can: readonly Instance[], hold: boolean): string {
  if (asked === 'delete') return 'The image, and what it has cost: usage is never deleted.'
  const data = [has(can, 'vm') && 'the disk', has(can, 'notebook') && 'the home folder']
    .filter(Boolean)
    .join(' and ')
  const gpu = can.some((i) => i.gpu_count > 0)
  const start = hold
    ? `Its ${gpu ? 'GPU' : 'place'} stays its own: it starts at once.`
    : `It can be started again, and then waits for a free ${gpu ? 'GPU' : 'place'} like any other.`
  const settings = 'name, image and settings, its events and usage'
  return data
    ? `${data.charAt(0).toUpperCase()}${data.slice(1)}; ${settings}. ${start}`
    : `Its ${settings}. ${start}`
}

function costWords(asked: Asked, can: readonly Instance[], hold: boolean): string {
  const one = can.length === 1 ? can[0] : undefined
  if (hold && one?.price_per_hour_micros !== undefined)
    return `Goes on at ${formatHourly(one.price_per_hour_micros, one.currency)} while it is held.`
  if (asked === 'release')
    return `Charging for ${can.some((i) => i.gpu_count > 0) ? 'the GPU, vCPU' : 'vCPU'} and memory ends at once; the disk is charged on.`
  const kept = asked === 'stop' && can.some((i) => dataKept(i.kind))
  return `Charging ends as soon as it has stopped${kept ? '; what is kept on disk is charged on' : ''}.`
}

function summary(list: readonly Instance[]): string {
  const words = [...new Set(list.map(gpuWords))]
  return words.length > 3 ? `${words.slice(0, 3).join(', ')} and more` : words.join(', ')
}
