import { useMutation, useQuery } from '@tanstack/react-query'
import { gpuRecover, incidentsQuery } from '~/api/card.ts'
import type { GPU } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { recoverable, wishWords } from '~/lib/cardwish.ts'
import { sentence } from '~/lib/format.ts'
import { Button } from '~/ui/Button.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { LayoutStrip, type StripPlace } from '~/ui/LayoutStrip.tsx'
import { Notice } from '~/ui/State.tsx'
import { StatusPill, Tag, type Tone } from '~/ui/StatusPill.tsx'
import { Ago } from '~/ui/Time.tsx'
import { toast } from '~/ui/Toast.tsx'

/** GPUChanging says what the card is on its way to, and what keeps it. */
export function GPUChanging({ g }: { g: GPU }) {
  if (!g.changing || !g.wish) return null
  return (
    <Notice tone="amber">
      <p className="font-medium">To become: {wishWords(g.wish)}</p>
      <p className="text-fg2">
        {sentence(g.wish_reason || 'its node has yet to act on it')}. Nothing new is placed on it until then.
      </p>
    </Notice>
  )
}

/** GPULayout draws the slices that the card has by its layout, and those that nobody here made. */
export function GPULayout({ g }: { g: GPU }) {
  const is = (kind: StripPlace['kind']) => (p: GPU['missing'][number]) => ({
    start: p.slot_start,
    end: p.slot_end,
    label: p.profile_name || p.profile,
    kind,
  })
  const foreign = g.slices.filter((s) => s.foreign)
  const fixed = g.wish?.mode === g.mode && !g.changing ? g.wish.layout : []
  const shown = fixed.filter((p) => !g.missing.some((m) => m.slot_start === p.slot_start))
  const places = [...shown.map(is('fixed')), ...g.missing.map(is('missing')), ...foreign.map(is('foreign'))]
  if (places.length === 0) return null
  return (
    <Panel
      title="Layout"
      aside={foreign.length ? 'Grey: not made by Tenon, and not touched' : 'Fixed by an operator'}
    >
      <div className={g.simulated ? 'pr-8' : undefined}>
        <LayoutStrip cells={g.slots} places={places} label="Layout" />
      </div>
      {g.missing.length > 0 && (
        <p className="mt-2 text-13 text-red">
          {g.missing.length === 1 ? 'One slice of it does' : `${g.missing.length} slices of it do`} not show
          on the card. The others are in service.
        </p>
      )}
    </Panel>
  )
}

/** RecoverGPU has a card that is out checked again; only one that passes is offered. */
export function RecoverGPU({ g }: { g: GPU }) {
  const recover = useMutation({
    mutationFn: () => gpuRecover(g.id),
    onSuccess: () => {
      toast('green', 'Its node checks it', 'If it passes, it is offered again')
      void queryClient.invalidateQueries({ queryKey: ['fleet'] })
    },
    onError: (e) => {
      const f = failureOf(e, 'recover it')
      toast('red', f.title, f.message)
    },
  })
  if (!recoverable(g.state)) return null
  return (
    <Button
      busy={recover.isPending}
      reason={g.claims.length ? 'Somebody holds some of it: it can be checked when they are gone' : null}
      onClick={() => recover.mutate()}
    >
      Recover
    </Button>
  )
}

const acts: Record<string, { tone: Tone; word: string }> = {
  none: { tone: 'grey', word: 'Stays in service' },
  needs_reset: { tone: 'amber', word: 'Reset after use' },
  out: { tone: 'red', word: 'Out of service' },
}

/** GPUIncidents lists what went wrong with the card, newest first. */
export function GPUIncidents({ g }: { g: GPU }) {
  const { data, error } = useQuery(incidentsQuery(g.id))
  return (
    <Panel flush title="What went wrong" aside="One fault a line, however often it was told">
      {error && !data ? (
        <p className="px-4 py-3 text-13 text-fg3">{failureOf(error, 'list it').message}</p>
      ) : !data?.length ? (
        <p className="px-4 py-3 text-13 text-fg3">{data ? 'Nothing so far.' : 'Looking…'}</p>
      ) : (
        <ul aria-label="What went wrong" className="max-h-80 divide-y divide-line overflow-y-auto">
          {data.map((x) => {
            const act = acts[x.action] ?? { tone: 'grey' as const, word: x.action }
            return (
              <li key={x.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-2 text-13">
                <span className="min-w-0 flex-1 basis-56">
                  <span className="flex flex-wrap items-center gap-x-2">
                    <span className="font-medium">
                      {x.xid ? `XID ${x.xid}` : sentence(x.kind.replaceAll('_', ' '))}
                    </span>
                    {x.instance_id && x.action === 'none' && (
                      <Tag title={x.instance_id}>a tenant’s program</Tag>
                    )}
                  </span>
                  {x.message && <span className="block break-words text-fg2">{sentence(x.message)}</span>}
                </span>
                <StatusPill tone={act.tone}>{act.word}</StatusPill>
                <span className="w-24 text-right text-fg3">
                  <Ago at={x.at} />
                </span>
              </li>
            )
          })}
        </ul>
      )}
    </Panel>
  )
}
