import { useMutation, useQuery } from '@tanstack/react-query'
import { type Node, type NodeStay, nodeDrain, nodeFence, nodeForget, staysQuery } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { plural } from '~/lib/format.ts'
import { AskDialog } from '~/ui/AskDialog.tsx'
import { ConfirmName } from '~/ui/ConfirmName.tsx'
import { toast } from '~/ui/Toast.tsx'
import { StaysList } from './NodeStays.tsx'

type Props = { node: Node; open: boolean; onClose: () => void }

const refresh = () => void queryClient.invalidateQueries({ queryKey: ['fleet'] })

/** DrainDialog says before a drain what stays on the node, and why. */
export function DrainDialog({ node: n, open, onClose }: Props) {
  const stays = useQuery({ ...staysQuery(n.name), enabled: open, retry: false })
  const drain = useMutation({
    mutationFn: () => nodeDrain(n.id, true),
    onSuccess: () => {
      toast('green', `${n.name} takes no new work`)
      refresh()
      onClose()
    },
  })
  const failure = drain.error ? failureOf(drain.error, 'drain it') : null
  return (
    <AskDialog
      open={open}
      onClose={() => {
        drain.reset()
        onClose()
      }}
      onConfirm={() => drain.mutate()}
      wide
      title={`Drain “${n.name}”?`}
      says="No new work is placed on it. What runs there goes on running until its owner stops it. The node can take work again at any time."
      verb="Drain node"
      busy={drain.isPending}
      failure={failure}
    >
      <div>
        <h3 className="mb-1 font-medium text-fg">What stays, and why</h3>
        {stays.error ? (
          <p>{failureOf(stays.error, 'list it').message}</p>
        ) : (
          <StaysList stays={stays.data} nothing="Nothing is on it now." />
        )}
      </div>
    </AskDialog>
  )
}

/** FenceDialog takes a person's word that the machine is off: only then may its work start elsewhere. */
export function FenceDialog({ node: n, open, onClose }: Props) {
  const fence = useMutation({
    mutationFn: () => nodeFence(n.id),
    onSuccess: () => {
      toast('green', `${n.name} is fenced`, 'What may start elsewhere is queued again')
      refresh()
      onClose()
    },
  })
  return (
    <ConfirmName
      open={open}
      title={`Is “${n.name}” switched off?`}
      name={n.name}
      label="I confirm that it is switched off"
      verb="Fence node"
      busy={fence.isPending}
      failure={fence.error ? failureOf(fence.error, 'fence it') : null}
      onClose={() => {
        fence.reset()
        onClose()
      }}
      onConfirm={() => fence.mutate()}
    >
      <p>
        Look at the machine itself: its power, not its network. What is set to start elsewhere is queued again
        at once. If the machine still runs, two copies of the same instance run, write and answer.
      </p>
      <p>Its GPUs stay out of use until it answers again or is forgotten.</p>
    </ConfirmName>
  )
}

/** ForgetDialog removes a lost node for good, and says what goes with it. */
export function ForgetDialog({ node: n, open, onClose, onDone }: Props & { onDone: () => void }) {
  const stays = useQuery({ ...staysQuery(n.name), enabled: open, retry: false })
  const forget = useMutation({
    mutationFn: () => nodeForget(n.id),
    onSuccess: () => {
      toast('green', `${n.name} is forgotten`)
      refresh()
      onClose()
      onDone()
    },
  })
  return (
    <ConfirmName
      open={open}
      title={`Forget “${n.name}”?`}
      name={n.name}
      label="I confirm that it will not come back"
      verb="Forget node"
      busy={forget.isPending}
      failure={forget.error ? failureOf(forget.error, 'forget it') : null}
      onClose={() => {
        forget.reset()
        onClose()
      }}
      onConfirm={() => forget.mutate()}
    >
      <div className="flex flex-col gap-3">
        <p>
          <span className="font-medium text-fg">Lost:</span> {lostWords(n, stays.data)} Its certificate is no
          longer accepted: to come back it has to join anew, empty.
        </p>
        <p>
          <span className="font-medium text-fg">Kept:</span> the instances by name, their events and what they
          have cost. Those that had no data there can be started again.
        </p>
        {stays.data && stays.data.length > 0 && <StaysList stays={stays.data} nothing="" />}
      </div>
    </ConfirmName>
  )
}

function lostWords(n: Node, stays: readonly NodeStay[] | undefined): string {
  const gpus = `its ${plural(n.gpus.length, 'GPU')}`
  if (!stays) return `${gpus}, and all data that lies on it, for good.`
  const data = new Set(stays.filter((s) => s.volume_id).map((s) => s.volume_id)).size
  const runs = stays.filter((s) => s.reason === 'running' || s.reason === 'stopping').length
  const parts = [gpus]
  if (data > 0) parts.push(`the data of ${plural(data, 'volume')}, for good`)
  if (runs > 0) parts.push(`${plural(runs, 'instance')} that may still run there`)
  return `${parts.join(', ')}.`
}
