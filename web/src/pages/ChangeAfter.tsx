import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { pricesQuery } from '~/api/fleet.ts'
import { type Instance, type InstanceUpdate, instanceUpdate } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { diskPrice } from '~/lib/board.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { Notice } from '~/ui/State.tsx'
import { toast } from '~/ui/Toast.tsx'
import { OnNodeLossField, OnNodeRebootField, OnStopField } from './AfterFields.tsx'

/** ChangeAfter changes what becomes of an instance when it is stopped, or when its node is lost or booted again. */
export function ChangeAfter({
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
  const [change, setChange] = useState<InstanceUpdate>({})
  const { data: prices } = useQuery({ ...pricesQuery, enabled: open })
  const save = useMutation({
    mutationFn: () => instanceUpdate(project, i.id, change),
    onSuccess: async () => {
      toast('green', `${i.name} is changed`)
      await queryClient.invalidateQueries({ queryKey: ['instance', project] })
      close()
    },
  })
  const close = () => {
    save.reset()
    setChange({})
    onClose()
  }
  const failure = save.error ? failureOf(save.error, 'change it') : null
  return (
    <Dialog
      open={open}
      onClose={close}
      wide
      title={i.kind === 'vm' ? `When “${i.name}” or its node stops` : `When the node of “${i.name}” stops`}
      actions={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button
            look="primary"
            busy={save.isPending}
            reason={Object.keys(change).length === 0 ? 'Nothing is changed yet' : null}
            onClick={() => save.mutate()}
          >
            Save
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4 text-fg">
        {failure && (
          <Notice tone="red" requestId={failure.requestId}>
            {failure.message}
          </Notice>
        )}
        {i.kind === 'vm' && (
          <section>
            <h3 className="mb-2 font-medium">When it is stopped, or switches itself off</h3>
            <OnStopField
              name="change-on-stop"
              value={change.on_stop ?? i.on_stop}
              onChange={(on_stop) => setChange((c) => ({ ...c, on_stop }))}
              price={i.price_per_hour_micros}
              currency={i.currency}
              gpus={i.gpu_count}
              disk={diskPrice(prices, i.disk_mib)}
            />
          </section>
        )}
        <section>
          <h3 className="mb-2 font-medium">If its node is lost</h3>
          <OnNodeLossField
            name="change-on-loss"
            value={change.on_node_loss ?? i.on_node_loss}
            onChange={(on_node_loss) => setChange((c) => ({ ...c, on_node_loss }))}
            kind={i.kind}
          />
        </section>
        <section>
          <h3 className="mb-2 font-medium">When its node was booted again</h3>
          <OnNodeRebootField
            name="change-on-reboot"
            value={change.on_node_reboot ?? i.on_node_reboot}
            onChange={(on_node_reboot) => setChange((c) => ({ ...c, on_node_reboot }))}
            kind={i.kind}
          />
        </section>
      </div>
    </Dialog>
  )
}
