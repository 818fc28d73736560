import { useInfiniteQuery, useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { type GPUStay, gpuFault, gpuForget, historyQuery } from '~/api/card.ts'
import type { GPU } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { formatExact } from '~/lib/format.ts'
import { tenantClass } from '~/lib/hue.ts'
import { Button, IconButton } from '~/ui/Button.tsx'
import { ChoiceCard } from '~/ui/ChoiceCard.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { Menu, type MenuItem } from '~/ui/Menu.tsx'
import { Notice } from '~/ui/State.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Elapsed } from '~/ui/Time.tsx'
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
    <Dialog
      open={open}
      onClose={close}
      title="Simulate a fault?"
      actions={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button look="primary" busy={show.isPending} onClick={() => show.mutate()}>
            Show it
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        {failure && (
          <Notice tone="red" requestId={failure.requestId}>
            {failure.message}
          </Notice>
        )}
        <p>
          The simulated GPU reports it as a real one would: the incident, the alarm and what its holders are
          told are the same.
        </p>
        <div className="grid gap-2 text-fg">
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
        </div>
      </div>
    </Dialog>
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
    <Dialog
      open={open}
      onClose={close}
      title={`Forget GPU ${g.index} of ${g.node}?`}
      actions={
        <>
          <Button onClick={close}>Keep it</Button>
          <Button look="danger" busy={forget.isPending} onClick={() => forget.mutate()}>
            Forget it
          </Button>
        </>
      }
    >
      {failure && (
        <div className="mb-3">
          <Notice tone="red" requestId={failure.requestId}>
            {failure.message}
          </Notice>
        </div>
      )}
      <p>
        For one that was taken out for good: it leaves the count, and its alarm ends. Who held it stays known.
        Put in again, it is a new GPU.
      </p>
    </Dialog>
  )
}

const columns: Column<GPUStay>[] = [
  { id: 'instance', header: 'Instance', cell: (s) => <span className="font-medium">{s.instance}</span> },
  {
    id: 'tenant',
    header: 'Organisation',
    grow: true,
    cell: (s) => (
      <span className={`${tenantClass(s.organisation)} inline-flex items-center gap-2`}>
        <span aria-hidden="true" className="size-2.5 rounded-[3px] bg-[var(--tenant-edge)]" />
        {s.organisation}
      </span>
    ),
  },
  { id: 'profile', header: 'Profile', cell: (s) => (s.profile === 'whole' ? 'whole' : s.profile_name) },
  {
    id: 'slots',
    header: 'Memory slices',
    align: 'right',
    from: 'sm',
    cell: (s) => (s.slot_end - s.slot_start === 1 ? s.slot_start : `${s.slot_start} to ${s.slot_end - 1}`),
  },
  { id: 'run', header: 'Run', align: 'right', from: 'sm', cell: (s) => s.epoch },
  {
    id: 'from',
    header: 'From',
    align: 'right',
    from: 'sm',
    cell: (s) => <span className="whitespace-nowrap tabular-nums">{formatExact(s.from)}</span>,
  },
  {
    id: 'for',
    header: 'For',
    align: 'right',
    cell: (s) => (
      <span className="whitespace-nowrap">
        <Elapsed from={s.from} {...(s.to ? { to: s.to } : {})} />
        {!s.to && <span className="hidden text-fg3 sm:inline"> so far</span>}
      </span>
    ),
  },
]

/** GPUHistory lists who held the card and when, newest first. */
export function GPUHistory({ g }: { g: GPU }) {
  const { data, error, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery(historyQuery(g.id))
  const rows = data?.pages.flatMap((p) => p.items)
  return (
    <Panel flush title="Who held it" aside="Newest first">
      {error && !rows ? (
        <p className="px-4 py-3 text-13 text-fg3">{failureOf(error, 'list it').message}</p>
      ) : !rows?.length ? (
        <p className="px-4 py-3 text-13 text-fg3">{rows ? 'Nobody so far.' : 'Looking…'}</p>
      ) : (
        <>
          <Table label="Who held it" columns={columns} rows={rows} rowKey={(s) => s.id} />
          {hasNextPage && (
            <div className="border-t border-line px-4 py-2">
              <Button busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
                Show older
              </Button>
            </div>
          )}
        </>
      )}
    </Panel>
  )
}
