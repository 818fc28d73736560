import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { pricesQuery } from '~/api/fleet.ts'
import { type Instance, instanceEventsQuery } from '~/api/instance.ts'
import { flavorsQuery } from '~/api/offer.ts'
import { diskPrice } from '~/lib/board.ts'
import { useNow } from '~/lib/clock.ts'
import { dataKept } from '~/lib/createform.ts'
import { formatHourly, formatMiB, formatMonthly } from '~/lib/format.ts'
import { heldWords, stripCells } from '~/lib/places.ts'
import { stretchesOf } from '~/lib/ribbon.ts'
import { figuresOf, gpuWords } from '~/lib/shape.ts'
import { CodeBlock, CopyLine } from '~/ui/CopyButton.tsx'
import { Facts, Panel } from '~/ui/Layout.tsx'
import { SliceStrip } from '~/ui/SliceStrip.tsx'
import { Bone } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { Ago, Elapsed } from '~/ui/Time.tsx'
import { TimeRibbon } from '~/ui/TimeRibbon.tsx'
import { InstanceHappening } from './InstanceHappening.tsx'
import { useInstance } from './InstancePage.tsx'
import { InstancePorts } from './InstancePorts.tsx'
import { InstanceVolumes } from './InstanceVolumes.tsx'

export function InstanceOverview() {
  const { project } = useParams({ from: '/app/projects/$project/instances/$instance' })
  const i = useInstance()
  if (!i) return null
  return (
    <div className="flex flex-col gap-4">
      <InstanceHappening i={i} project={project} />
      <Life i={i} project={project} />
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title="Resources">
            <Resources i={i} />
          </Panel>
          <InstanceVolumes instance={i} />
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title="About">
            <About i={i} />
          </Panel>
          {i.kind === 'vm' && <SSHPanel i={i} />}
          <InstancePorts instance={i} project={project} />
        </div>
      </div>
    </div>
  )
}

function Life({ i, project }: { i: Instance; project: string }) {
  const { data: events } = useQuery(instanceEventsQuery(project, i.name))
  const { data: prices } = useQuery(pricesQuery)
  const now = useNow(1)
  return (
    <Panel
      title="Life and cost"
      aside={
        i.kind === 'vm'
          ? 'From creation to now; charged while it runs, and while its GPU is held'
          : 'From creation to now; charged while it runs'
      }
    >
      {events ? (
        <TimeRibbon
          stretches={stretchesOf(events, { state: i.state, createdAt: i.created_at, held: i.held })}
          events={events}
          hourlyMicros={i.price_per_hour_micros ?? 0}
          keptMicros={dataKept(i.kind) ? (diskPrice(prices, i.disk_mib) ?? 0) : 0}
          currency={i.currency ?? 'USD'}
          now={now}
        />
      ) : (
        <div className="flex h-[88px] flex-col gap-3 pt-2">
          <Bone className="h-3 w-full" />
          <Bone className="w-1/3" />
        </div>
      )}
    </Panel>
  )
}

function Resources({ i }: { i: Instance }) {
  const price = i.price_per_hour_micros
  const { data: flavors } = useQuery({ ...flavorsQuery, enabled: i.gpu_count > 0 })
  const offer = flavors?.find(
    (f) => f.id === i.flavor_id && f.gpu_profile === i.gpu_profile && f.gpu_model === i.gpu_model,
  )
  // Drivers tell it of a flavor, not of one instance; an older control plane tells nothing.
  const figures = offer && figuresOf({ ...offer, gpu_count: i.gpu_count })
  return (
    <div className="flex flex-col gap-4">
      {i.gpus?.map((g) => (
        <div key={`${g.gpu_id}-${g.slot_start}`}>
          <SliceStrip start={g.slot_start} end={g.slot_end} label={g.profile_name} cells={stripCells(g)} />
          <p className="mt-1 flex flex-wrap items-center gap-x-2 text-12 text-fg3">
            {g.profile === 'whole'
              ? `Holds the whole ${g.model_name || g.model}`
              : `Holds ${g.profile_name} of one ${g.model_name || g.model}, ${heldWords(g)}`}
            {g.simulated && <Tag title="This GPU is simulated">sim</Tag>}
          </p>
        </div>
      ))}
      <Facts
        items={[
          ['GPU', gpuWords(i)],
          Boolean(figures?.memory) && ['GPU memory', figures?.memory],
          Boolean(figures?.sms) && [
            'Compute',
            <span key="sms" title="Streaming multiprocessors">
              {figures?.sms}
            </span>,
          ],
          ['vCPU', i.vcpu],
          ['Memory', formatMiB(i.memory_mib)],
          [
            'Disk',
            i.kind === 'vm'
              ? `${formatMiB(i.disk_mib)}, kept until it is deleted`
              : i.kind === 'notebook'
                ? `${formatMiB(i.disk_mib)} for the home folder, kept until it is deleted`
                : `${formatMiB(i.disk_mib)}, gone when it stops`,
          ],
          ['Flavor', i.flavor],
          ['Pool', i.simulated && i.pool !== 'simulated' ? `${i.pool}, simulated` : i.pool],
          i.kind === 'vm' && ['When stopped', i.on_stop === 'hold' ? 'Holds its GPU' : 'Releases its GPU'],
          i.job === undefined && [
            'Node lost',
            i.on_node_loss === 'restart' ? 'Starts elsewhere' : 'Waits for the node',
          ],
          i.job === undefined && [
            'Node booted',
            i.on_node_reboot === 'restart' ? 'Starts there again' : 'Fails',
          ],
          [
            'Price',
            price === undefined
              ? 'Not priced'
              : `${formatHourly(price, i.currency)} while it runs, about ${formatMonthly(price, i.currency)} a month`,
          ],
        ]}
      />
    </div>
  )
}

function About({ i }: { i: Instance }) {
  const env = Object.entries(i.env ?? {})
  return (
    <Facts
      items={[
        ['Id', <CopyLine key="id" text={i.id} label="Copy the id" />],
        i.job !== undefined && [
          'Job',
          <Link
            key="job"
            to="/projects/$project/jobs/$job"
            params={{ project: i.project, job: i.job }}
            className="link"
          >
            {i.job}, rank {i.rank}
          </Link>,
        ],
        ['Image', i.image],
        ['Digest', <CopyLine key="digest" text={i.image_digest} label="Copy the digest" />],
        i.kind !== 'vm' && [
          'Command',
          i.command?.length ? (
            <code key="command" className="font-mono text-12 break-all">
              {i.command.join(' ')}
            </code>
          ) : (
            'The image’s own'
          ),
        ],
        env.length > 0 && ['Environment', <Environment key="env" env={env} />],
        ['Node', i.node || 'None now'],
        [
          'Address',
          i.address ? <CopyLine key="address" text={i.address} label="Copy the address" /> : 'None now',
        ],
        ['Created', <Ago key="created" at={i.created_at} />],
        i.started_at !== undefined && [
          'Running for',
          i.state === 'running' ? <Elapsed key="run" from={i.started_at} /> : '–',
        ],
      ]}
    />
  )
}

/** SSHPanel says how one gets in: the key never leaves its owner. */
function SSHPanel({ i }: { i: Instance }) {
  const keys = i.ssh_keys ?? []
  return (
    <Panel title="SSH">
      <p className="mb-2 text-13 text-fg2">
        From your own terminal, through this cloud; your private key stays with you:
      </p>
      <CodeBlock label="Command" text={`tenon instance shell ${i.name}`} />
      <p className="mt-3 text-12 text-fg3">
        {keys.length === 0
          ? 'No key was given at creation, so only the console and the screen show it, and user data may have set a password.'
          : 'May log in since its first boot:'}
      </p>
      {keys.length > 0 && (
        <ul className="mt-1 flex flex-col gap-1">
          {keys.map((k) => (
            <li key={k}>
              <CopyLine text={k} label="Copy the key" />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  )
}

/** Environment scrolls by itself when there is much of it. */
function Environment({ env }: { env: readonly (readonly [string, string])[] }) {
  return (
    <section aria-label="Environment">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
      <ul tabIndex={0} className="max-h-60 overflow-y-auto font-mono text-12 break-all">
        {env.map(([k, v]) => (
          <li key={k}>
            {k}={v}
          </li>
        ))}
      </ul>
    </section>
  )
}
