import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { gpuFault, gpuForget } from '~/api/card.ts'
import type { GPU } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { AskDialog } from '~/ui/AskDialog.tsx'
import { IconButton } from '~/ui/Button.tsx'
import { ChoiceCard } from '~/ui/ChoiceCard.tsx'
import { Menu, type MenuItem } from '~/ui/Menu.tsx'
import { toast } from '~/ui/Toast.tsx'

/** GPUMenu holds what is rarely done with a card. */
export function GPUMenu({ g }: { g: GPU }) {
  const [open, setOpen] = useState<'fault' | 'forget' | null>(null)
  const items: MenuItem[] = []
  if (g.simulated) items.push({ label: 'Simulate a fault…', onSelect: () => setOpen('fault') })
  if (g.state === 'missing')
    items.push({
      label: 'Forget…',
      danger: true,
      reason: g.claims.length ? 'Somebody holds some of it' : null,
      onSelect: () => setOpen('forget'),
    })
  if (items.length === 0) return null
  return (
    <>
      <Menu
        label="More of this GPU"
        trigger={<IconButton label="More of this GPU" icon="more" />}
        items={items}
      />
      <Fault g={g} open={open === 'fault'} onClose={() => setOpen(null)} />
      <Forget g={g} open={open === 'forget'} onClose={() => setOpen(null)} />
    </>
  )
}

const faults = [
  { xid: 31, title: 'A program’s fault', what: 'An event for whoever holds it. The GPU stays in service.' },
  { xid: 48, title: 'A memory error', what: 'Nothing new is placed on it until it was reset.' },
  { xid: 79, title: 'Fallen off the bus', what: 'Out of service, with an alarm, until it is recovered.' },
]

function Fault({ g, open, onClose }: { g: GPU; open: boolean; onClose: () => void }) {
  const [xid, setXID] = useState(79)
  const show = useMutation({
    mutationFn: () => gpuFault(g.id, xid),
    onSuccess: () => {
      toast('green', `It shows XID ${xid} in a moment`, 'Simulated: the hardware is not touched')
      void queryClient.invalidateQueries({ queryKey: ['fleet'] })
      close()
    },
  })
  const close = () => {
    show.reset()
    onClose()
  }
  const failure = show.error ? failureOf(show.error, 'simulate it') : null
  return (
    <AskDialog
      open={open}
      onClose={close}
      onConfirm={() => show.mutate()}
      title="Simulate a fault?"
      says="The simulated GPU reports it as a real one would: the incident, the alarm and what its holders are told are the same."
      verb="Simulate fault"
      busy={show.isPending}
      failure={failure}
    >
      <fieldset className="grid gap-2 text-fg">
        <legend className="sr-only">Fault</legend>
        {faults.map((f) => (
          <ChoiceCard
            key={f.xid}
            name="xid"
            value={String(f.xid)}
            checked={xid === f.xid}
            onChange={() => setXID(f.xid)}
          >
            <span className="flex justify-between gap-x-3">
              <span className="font-medium">{f.title}</span>
              <span className="tabular-nums text-fg2">XID {f.xid}</span>
            </span>
            <span className="text-12 text-fg2">{f.what}</span>
          </ChoiceCard>
        ))}
      </fieldset>
    </AskDialog>
  )
}

function Forget({ g, open, onClose }: { g: GPU; open: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const forget = useMutation({
    mutationFn: () => gpuForget(g.id),
    onSuccess: () => {
      toast('green', 'The GPU is forgotten')
      void queryClient.invalidateQueries({ queryKey: ['fleet'] })
      void navigate({ to: '/fleet/nodes/$node', params: { node: g.node } })
    },
  })
  const close = () => {
    forget.reset()
    onClose()
  }
  const failure = forget.error ? failureOf(forget.error, 'forget it') : null
  return (
    <AskDialog
      open={open}
      onClose={close}
      onConfirm={() => forget.mutate()}
      title={`Forget GPU ${g.index} of ${g.node}?`}
      says="For one that was taken out for good: it leaves the count, and its alarm ends. Who held it stays known. Put in again, it is a new GPU."
      verb="Forget GPU"
      keep="Keep it"
      danger
      busy={forget.isPending}
      failure={failure}
    />
  )
}
