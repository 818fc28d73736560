import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Instance } from '~/api/instance.ts'
import { useNow } from '~/lib/clock.ts'
import { dataKept } from '~/lib/createform.ts'
import { formatExact, formatHourly, formatRelative, sentence } from '~/lib/format.ts'
import { canWithoutGPU, degraded, unconfirmed } from '~/lib/instancestate.ts'
import { gpuWords } from '~/lib/shape.ts'
import { waitingLines } from '~/lib/waiting.ts'
import { Button } from '~/ui/Button.tsx'
import { Notice } from '~/ui/State.tsx'
import { Ago } from '~/ui/Time.tsx'
import { useInstanceAction } from './instanceactions.tsx'

/** InstanceHappening says why it waits, how far it is, what it costs while it rests, or why it ended. */
export function InstanceHappening({ i, project }: { i: Instance; project: string }) {
  if (unconfirmed(i)) return <Unconfirmed i={i} />
  if (i.state === 'queued') return <Queued i={i} project={project} />
  if (i.state === 'starting') return <Starting i={i} />
  if (i.state === 'running' && i.idle_stop_at)
    return (
      <>
        {degraded(i) && <Degraded i={i} />}
        <Idle i={i} project={project} />
      </>
    )
  if (degraded(i)) return <Degraded i={i} />
  if (i.state === 'stopped' && i.held) return <Held i={i} />
  const idle = i.state === 'stopped' && i.reason === 'idle'
  if (
    i.state === 'failed' ||
    // a VM that was asked to stop has an exit code too: its engine's
    (i.state === 'stopped' &&
      !idle &&
      ((i.exit_code !== undefined && i.kind !== 'vm') || i.reason === 'power_off'))
  )
    return <Ended i={i} project={project} />
  if (i.state === 'stopped' && dataKept(i.kind))
    return (
      <Notice action={<WithoutGPU i={i} project={project} />}>
        {idle && (
          <p className="font-medium">
            Stopped for idleness <Ago at={i.state_at} />
          </p>
        )}
        <p>
          {i.kind === 'vm' ? 'Its disk is' : 'Its home folder is'} kept, and charged as long as it exists.
          {i.gpu_count > 0 && ' Its GPU was given back: a start waits for a free one.'}
        </p>
      </Notice>
    )
  return null
}

function Queued({ i, project }: { i: Instance; project: string }) {
  const never = i.reason === 'never_fits'
  return (
    <Notice tone="amber" action={<WithoutGPU i={i} project={project} />}>
      <p className="font-medium">
        {never
          ? 'No node of its pool could ever take it'
          : i.queue_place
            ? `Waiting for a place: ${i.queue_place === 1 ? 'next' : `number ${i.queue_place}`} in the queue`
            : 'Waiting for a place'}
      </p>
      {i.reasons?.length ? (
        <ul aria-label="Why it waits" className="mt-1 flex flex-col gap-1">
          {waitingLines(i.reasons).map((l) => (
            <li key={l.reason} className={l.help ? undefined : 'text-fg3'}>
              {l.text}.{l.help && <span className="text-fg2"> {l.help}</span>}
            </li>
          ))}
        </ul>
      ) : (
        i.message && <p>{sentence(i.message)}.</p>
      )}
      <p className="mt-1 text-fg2">
        {dataKept(i.kind) && i.volumes?.some((v) => v.state === 'present')
          ? 'Only its disk is charged while it waits; nothing on it is lost.'
          : 'Nothing is charged while it waits.'}
        {never
          ? ' Delete it and choose a smaller shape, or ask an operator for a larger node.'
          : ' It starts by itself when a place is free.'}
      </p>
    </Notice>
  )
}

/** WithoutGPU starts what waits or rests without its GPUs, to save its data. */
function WithoutGPU({ i, project }: { i: Instance; project: string }): ReactNode {
  const act = useInstanceAction(project)
  // what never ran has no data to save
  const data = i.state === 'stopped' || i.volumes?.some((v) => v.state === 'present')
  if (!canWithoutGPU(i) || !data) return null
  return (
    <Button
      small
      busy={act.isPending}
      title="It starts without its GPU and without the GPU’s price, so that you can save its data"
      onClick={() => act.mutate({ action: 'start', targets: [i], options: { withoutGPU: true } })}
    >
      Start without GPU
    </Button>
  )
}

function Starting({ i }: { i: Instance }) {
  return (
    <Notice>
      <p>{sentence(i.message || 'Its node prepares it.')}</p>
      {i.progress !== undefined && (
        <div
          role="progressbar"
          aria-label="Progress of this step"
          aria-valuenow={i.progress}
          aria-valuemin={0}
          aria-valuemax={100}
          className="mt-2 h-1 overflow-hidden rounded-full bg-line"
        >
          <div className="h-full bg-blue" style={{ width: `${i.progress}%` }} />
        </div>
      )}
    </Notice>
  )
}

function Degraded({ i }: { i: Instance }) {
  return (
    <Notice tone="amber">
      <p className="font-medium">Degraded: it runs, but not on all of its GPU</p>
      <p>{sentence(i.message || 'a GPU of it is out of service')}.</p>
      <p className="mt-1 text-fg2">
        Save what matters, then stop it so that it gives its GPU back, and start it again.
      </p>
    </Notice>
  )
}

function Idle({ i, project }: { i: Instance; project: string }) {
  const now = useNow(5)
  const at = i.idle_stop_at
  if (!at) return null
  return (
    <Notice tone="amber">
      <p className="font-medium">
        Idle
        {i.idle_since && (
          <>
            {' '}
            since <Ago at={i.idle_since} />
          </>
        )}
        : it will be stopped{' '}
        <time dateTime={at} title={formatExact(at)}>
          {formatRelative(at, now)}
        </time>
        , at {new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })}
      </p>
      <p className="mt-1">
        <span className="font-medium">Keep it running:</span> run a cell, use its GPU, or work in a terminal.
        An open tab alone is not work. Its home folder is kept either way.
      </p>
      <p className="mt-1 text-fg2">
        How long it may idle is this project’s policy:{' '}
        <Link to="/projects/$project/settings" params={{ project }} className="link">
          Settings
        </Link>
        .
      </p>
    </Notice>
  )
}

function Held({ i }: { i: Instance }) {
  return (
    <Notice tone="amber">
      <p className="font-medium">
        Stopped, and {i.gpu_count > 0 ? gpuWords(i) : 'its place'} is held for it
        {i.price_per_hour_micros !== undefined &&
          `: ${formatHourly(i.price_per_hour_micros, i.currency)}, as if it ran`}
      </p>
      <p className="mt-1 text-fg2">
        It starts at once, at any time. Release {i.gpu_count > 0 ? 'the GPU' : 'its place'} to end the charge:
        its disk is kept, and a later start waits for a free one.
      </p>
    </Notice>
  )
}

function Unconfirmed({ i }: { i: Instance }) {
  const local = i.volumes?.some((v) => v.state === 'present')
  // other words than these tell of another cause: a restore
  const cause = i.message && !/heard/.test(i.message) ? i.message : 'its node has not been heard of'
  return (
    <Notice tone="amber">
      <p className="font-medium">{sentence(cause)}</p>
      <p className="mt-1">
        It may still run there. What it holds stays held; nothing is charged after the last proof that it ran.
      </p>
      <p className="mt-1 text-fg2">
        {local
          ? 'Its disk lies on that node, so it can’t start elsewhere: it waits for the node to come back.'
          : i.on_node_loss === 'restart'
            ? 'It is set to start elsewhere: it is queued again once the old run has certainly ended, after about two minutes or when an operator confirms that the node is switched off.'
            : 'It is set to wait for the node: it shows again when the node does. It can be set to start elsewhere, under “More actions”.'}
      </p>
    </Notice>
  )
}

function Ended({ i, project }: { i: Instance; project: string }) {
  return (
    <Notice tone={i.state === 'failed' ? 'red' : 'grey'}>
      <p className="font-medium">
        {sentence(
          i.message ||
            (i.state === 'failed'
              ? 'It failed.'
              : i.reason === 'power_off'
                ? 'It switched itself off.'
                : 'It ended by itself.'),
        )}
        {i.exit_code !== undefined &&
          !i.message?.includes(String(i.exit_code)) &&
          ` Exit code ${i.exit_code}.`}
      </p>
      {i.last_lines && (
        <>
          <p className="mt-1 text-12 text-fg2">Its last lines:</p>
          <pre className="mt-1 max-h-56 overflow-auto rounded-control bg-[var(--term-bg)] px-3 py-2 font-mono text-12 leading-5 whitespace-pre-wrap text-[var(--term-fg)]">
            {i.last_lines}
          </pre>
        </>
      )}
      {i.state === 'failed' && (
        <p className="mt-1 text-fg2">
          {dataKept(i.kind)
            ? 'Its disk is kept; nothing else is charged now.'
            : 'It holds nothing and costs nothing now.'}{' '}
          Start it again, or look at its{' '}
          <Link
            to="/projects/$project/instances/$instance/events"
            params={{ project, instance: i.name }}
            className="link"
          >
            events
          </Link>
          .
        </p>
      )}
    </Notice>
  )
}
