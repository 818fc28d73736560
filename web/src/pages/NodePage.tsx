import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import {
  gpuMetricsQuery,
  type Node,
  nodeDrain,
  nodeQuery,
  type Orphan,
  orphanRemove,
  pricesQuery,
  staysQuery,
} from '~/api/fleet.ts'
import { meQuery } from '~/api/me.ts'
import { failureOf, isNotFound } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { pricesBySKU } from '~/lib/board.ts'
import { useNow } from '~/lib/clock.ts'
import { formatMiB, sentence } from '~/lib/format.ts'
import { kindWord } from '~/lib/instancestate.ts'
import { forgetRefusal, nodeMeans, shownNode } from '~/lib/nodestate.ts'
import { useTitle } from '~/lib/title.ts'
import { Button, buttonClass } from '~/ui/Button.tsx'
import { CopyLine } from '~/ui/CopyButton.tsx'
import { Facts, Page, Panel } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState, Notice, Stale } from '~/ui/State.tsx'
import { StatusPill, Tag } from '~/ui/StatusPill.tsx'
import { Ago } from '~/ui/Time.tsx'
import { toast } from '~/ui/Toast.tsx'
import { ConfirmEnd } from './ConfirmEnd.tsx'
import { DrainDialog, FenceDialog, ForgetDialog } from './NodeDialogs.tsx'
import { NodeGPUs } from './NodePanel.tsx'
import { NodeStays } from './NodeStays.tsx'

export function NodePage() {
  const { node: ref } = useParams({ from: '/app/fleet/nodes/$node' })
  const { data: me } = useSuspenseQuery(meQuery)
  const enabled = me.user.operator
  const { data: n, error, refetch, isFetching, dataUpdatedAt } = useQuery({ ...nodeQuery(ref), enabled })
  const now = useNow(5)
  useTitle(n?.name ?? ref)
  const crumb = (
    <nav aria-label="Breadcrumb" className="mb-1 text-12 text-fg3">
      <Link to="/fleet" className="link !text-fg3">
        Fleet
      </Link>
      {n && ` / pool ${n.pool}`}
    </nav>
  )
  const gone = isNotFound(error)
  if (!enabled || (error && (!n || gone)))
    return (
      <Page title={ref} above={crumb}>
        <Panel>
          {!enabled || gone ? (
            <Empty
              icon="fleet"
              title="There is no such node"
              action={
                <Link to="/fleet" className={buttonClass('secondary')}>
                  The fleet
                </Link>
              }
            >
              It does not exist, was forgotten, or is not yours to see.
            </Empty>
          ) : (
            <ErrorState
              failure={failureOf(error, 'show this node')}
              onRetry={() => void refetch()}
              busy={isFetching}
            />
          )}
        </Panel>
      </Page>
    )
  if (!n)
    return (
      <Page title={ref} above={crumb}>
        <Bone className="mb-5 h-8 w-full" />
        <Bone className="h-64 w-full rounded-box" />
      </Page>
    )
  const { tone, word } = shownNode(n)
  return (
    <Page
      above={crumb}
      title={
        <>
          <span className="min-w-0 break-all">{n.name}</span>
          <span className="text-13 font-normal tracking-normal">
            <StatusPill tone={tone} live>
              {word}
            </StatusPill>
          </span>
          {n.drained && word !== 'Drained' && <Tag>drained</Tag>}
          {n.simulated && <Tag title="This node is simulated: nothing really runs on it">sim</Tag>}
        </>
      }
      actions={<NodeActions node={n} />}
    >
      <Stale since={error ? dataUpdatedAt : null} now={now}>
        <div className="flex flex-col gap-4">
          {(n.state !== 'ready' || n.drained) && (
            <Notice tone={n.state === 'lost' ? 'red' : 'amber'}>
              <p className="font-medium">
                {word}
                {n.state !== 'ready' && n.last_seen_at && (
                  <>
                    : last news <Ago at={n.last_seen_at} />
                  </>
                )}
              </p>
              <p className="text-fg2">{nodeMeans(n)}</p>
            </Notice>
          )}
          <GPUs n={n} />
          <div className="grid items-start gap-4 lg:grid-cols-2">
            <Panel title="Host">
              <Host n={n} />
            </Panel>
            <Panel title="About">
              <About n={n} />
            </Panel>
          </div>
          <Excluded n={n} />
          <Stays n={n} />
          <Orphans n={n} />
        </div>
      </Stale>
    </Page>
  )
}

function NodeActions({ node: n }: { node: Node }) {
  const navigate = useNavigate()
  const [asking, setAsking] = useState<'drain' | 'fence' | 'forget' | null>(null)
  const close = () => setAsking(null)
  const undrain = useMutation({
    mutationFn: () => nodeDrain(n.id, false),
    onSuccess: () => {
      toast('green', `${n.name} takes work again`)
      void queryClient.invalidateQueries({ queryKey: ['fleet'] })
    },
    onError: (e) => toast('red', failureOf(e, 'change the node').message),
  })
  return (
    <>
      {n.drained ? (
        <Button busy={undrain.isPending} onClick={() => undrain.mutate()}>
          Take work again
        </Button>
      ) : (
        <Button onClick={() => setAsking('drain')}>Drain…</Button>
      )}
      <Button
        reason={
          n.state === 'ready'
            ? 'It answers: there is nothing to confirm'
            : n.fenced_by === 'operator'
              ? 'It is confirmed already'
              : null
        }
        onClick={() => setAsking('fence')}
      >
        Fence…
      </Button>
      <Button look="danger" reason={forgetRefusal(n)} onClick={() => setAsking('forget')}>
        Forget…
      </Button>
      <DrainDialog node={n} open={asking === 'drain'} onClose={close} />
      <FenceDialog node={n} open={asking === 'fence'} onClose={close} />
      <ForgetDialog
        node={n}
        open={asking === 'forget'}
        onClose={close}
        onDone={() => void navigate({ to: '/fleet' })}
      />
    </>
  )
}

function GPUs({ n }: { n: Node }) {
  const metrics = useQuery(gpuMetricsQuery)
  const prices = useQuery(pricesQuery)
  const skus = useMemo(() => pricesBySKU(prices.data ?? []), [prices.data])
  const percent = useMemo(
    () => new Map((metrics.data?.items ?? []).map((m) => [m.gpu_id, m.percent])),
    [metrics.data],
  )
  return (
    <Panel title="GPUs" aside={n.gpus.some((g) => g.simulated) ? 'Simulated' : undefined}>
      <NodeGPUs gpus={n.gpus} lens="tenant" percent={percent} prices={skus} />
    </Panel>
  )
}

/** Excluded are functions that look like GPUs, and why none of them is offered. */
function Excluded({ n }: { n: Node }) {
  if (n.excluded.length === 0) return null
  return (
    <Panel flush title="Not offered" aside="It looks like a GPU, and is not one to give out">
      <ul aria-label="Not offered" className="divide-y divide-line">
        {n.excluded.map((x) => (
          <li key={x.pci_address} className="flex flex-wrap gap-x-4 gap-y-0.5 px-4 py-2 text-13">
            <span className="font-mono text-12 leading-5 text-fg3">
              {x.pci_address} {x.vendor}:{x.device}
            </span>
            <span className="min-w-0 flex-1 basis-64 break-words">{sentence(x.reason)}</span>
          </li>
        ))}
      </ul>
    </Panel>
  )
}

function Host({ n }: { n: Node }) {
  const sellable = Math.floor(n.vcpu * n.cpu_overcommit)
  return (
    <div className="flex flex-col gap-4">
      <Use name="vCPU" used={n.used_vcpu} all={sellable} words={`${n.used_vcpu} of ${sellable} sold`} />
      <Use
        name="Memory"
        used={n.used_memory_mib}
        all={n.memory_mib}
        words={`${formatMiB(n.used_memory_mib)} of ${formatMiB(n.memory_mib)}`}
      />
      <p className="text-12 text-fg3">
        The host has {n.vcpu} CPUs, sold {n.cpu_overcommit} times over.
      </p>
    </div>
  )
}

function Use({ name, used, all, words }: { name: string; used: number; all: number; words: string }) {
  return (
    <div>
      <p className="flex justify-between gap-4 text-13">
        <span>{name}</span>
        <span className="text-fg2 tabular-nums">{words}</span>
      </p>
      <div aria-hidden="true" className="mt-1 h-1.5 overflow-hidden rounded-full bg-sunken">
        <div
          className="h-full bg-accent"
          style={{ width: `${all > 0 ? Math.min(100, (used / all) * 100) : 0}%` }}
        />
      </div>
    </div>
  )
}

function About({ n }: { n: Node }) {
  return (
    <Facts
      items={[
        ['Pool', n.pool],
        ...Object.entries(n.labels ?? {}).map(
          ([k, v]) => [`${k.charAt(0).toUpperCase()}${k.slice(1)}`, v] as const,
        ),
        n.kinds !== undefined && [
          'Runs',
          n.kinds.length ? n.kinds.map((k) => `${kindWord[k] ?? k}s`).join(', ') : 'Nothing now',
        ],
        ...Object.entries(n.drivers ?? {}).map(
          ([name, what]) => [`${name.charAt(0).toUpperCase()}${name.slice(1)}`, what] as const,
        ),
        n.watchdog !== undefined && [
          'Watchdog',
          n.watchdog
            ? 'On: without contact it ends what may start elsewhere, after 90 s'
            : 'None: nothing starts elsewhere until a person confirms that it is off',
        ],
        n.fenced_at !== undefined && [
          'Fenced',
          <span key="fenced">
            <Ago at={n.fenced_at} /> {n.fenced_by === 'operator' ? 'by a person' : 'by its watchdog'}
          </span>,
        ],
        ['Agent', n.agent_version || '–'],
        ['Seen', n.last_seen_at ? <Ago key="seen" at={n.last_seen_at} /> : 'Never'],
        [
          'Assignment',
          n.generation === n.ack_generation
            ? `${n.generation}, held by the node`
            : `${n.generation}, the node holds ${n.ack_generation}`,
        ],
        ['Id', <CopyLine key="id" text={n.id} label="Copy the id" />],
        ['Joined', <Ago key="joined" at={n.created_at} />],
      ]}
    />
  )
}

function Stays({ n }: { n: Node }) {
  const { data, error } = useQuery({ ...staysQuery(n.name), retry: false })
  return (
    <Panel flush title="What is on it" aside="What a drain leaves, and why">
      {error && !data ? (
        <p className="px-4 py-3 text-13 text-fg3">{failureOf(error, 'list it').message}</p>
      ) : (
        <NodeStays stays={data} />
      )}
    </Panel>
  )
}

function Orphans({ n }: { n: Node }) {
  const [removing, setRemoving] = useState<(Orphan & { name: string }) | null>(null)
  const orphans = n.orphans ?? []
  if (orphans.length === 0) return null
  return (
    <Panel flush title="Orphans" aside="It has them, and nobody assigned them">
      <ul aria-label="Orphans" className="divide-y divide-line">
        {orphans.map((o) => (
          <li
            key={`${o.driver} ${o.id}`}
            className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-2 text-13"
          >
            <span className="min-w-0 flex-1 basis-64">
              <span className="block break-words">{sentence(o.what)}</span>
              <span className="block font-mono text-12 break-all text-fg3">
                {o.driver} {o.id}
              </span>
            </span>
            <Button small look="danger" onClick={() => setRemoving({ ...o, name: o.id })}>
              Remove…
            </Button>
          </li>
        ))}
      </ul>
      <p className="border-t border-line px-4 py-2 text-12 text-fg3">
        Left by a restore or by another hand. They go on as they are and keep their GPUs; nothing ends them
        but you.
      </p>
      <ConfirmEnd
        thing={removing}
        verb="Remove"
        noun="orphan"
        done="being removed"
        queryKey="fleet"
        end={(id) => orphanRemove(n.id, id)}
        onClose={() => setRemoving(null)}
      >
        {sentence(removing?.what ?? '')}. It is ended on {n.name} and its data is deleted, for good. Make sure
        that nobody needs it.
      </ConfirmEnd>
    </Panel>
  )
}
