import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Instance, instanceUpdate } from '~/api/instance.ts'
import { type Flavor, flavorsQuery } from '~/api/offer.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { dataKept, vmRefusal } from '~/lib/createform.ts'
import { formatHourly, formatMiB } from '~/lib/format.ts'
import { gpuWords } from '~/lib/shape.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { Notice } from '~/ui/State.tsx'
import { toast } from '~/ui/Toast.tsx'
import { FlavorPicker } from './FlavorPicker.tsx'

/** ResizeDialog gives a stopped instance another shape; it counts from its next start. */
export function ResizeDialog({
  instance: i,
  project,
  open,
  onClose,
}: {
  instance: Instance
  project: string
  open: boolean
  onClose: () => void
}) {
  const [flavor, setFlavor] = useState(i.flavor)
  const { data: flavors } = useQuery({ ...flavorsQuery, enabled: open })
  const resize = useMutation({
    mutationFn: () => instanceUpdate(project, i.id, { flavor }),
    onSuccess: async () => {
      toast('green', `${i.name} has the shape ${flavor} from its next start`)
      await queryClient.invalidateQueries({ queryKey: ['instance', project] })
      void queryClient.invalidateQueries({ queryKey: ['instances', project] })
      close()
    },
  })
  const close = () => {
    resize.reset()
    setFlavor(i.flavor)
    onClose()
  }
  // What lies on its node, which a shape that was only asked for has not grown yet.
  const kept = Math.max(0, ...(i.volumes ?? []).map((v) => (v.state === 'pending' ? 0 : v.size_mib)))
  const refusal = (f: Flavor) =>
    i.kind === 'vm' && vmRefusal(f)
      ? vmRefusal(f)
      : dataKept(i.kind) && f.disk_mib < kept
        ? `A disk never shrinks: shapes with less than ${formatMiB(kept)} can’t be chosen`
        : null
  const failure = resize.error ? failureOf(resize.error, 'change the shape') : null
  const chosen = flavors?.find((f) => f.name === flavor)
  return (
    <Dialog
      open={open}
      onClose={close}
      wide
      title={`Change the shape of “${i.name}”`}
      actions={
        <>
          <Button onClick={close}>Keep {i.flavor}</Button>
          <Button
            look="primary"
            busy={resize.isPending}
            reason={flavor === i.flavor ? 'It has that shape now' : null}
            onClick={() => resize.mutate()}
          >
            Change shape
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3 text-fg">
        {failure && (
          <Notice tone="red" requestId={failure.requestId}>
            <p>{failure.message}</p>
            {failure.hint && <p className="text-fg2">{failure.hint}</p>}
          </Notice>
        )}
        <p className="text-fg2">
          Now {gpuWords(i)}, {i.vcpu} vCPU, {formatMiB(i.memory_mib)}.
          {chosen &&
            chosen.name !== i.flavor &&
            chosen.price_per_hour_micros !== undefined &&
            ` From its next start it costs ${formatHourly(chosen.price_per_hour_micros, chosen.currency)} while it runs.`}
        </p>
        <FlavorPicker
          flavors={flavors}
          value={flavor}
          onChange={setFlavor}
          error={null}
          refusal={refusal}
          refusedWord="can’t be chosen"
          simulated={i.pool === 'simulated'}
        />
      </div>
    </Dialog>
  )
}
