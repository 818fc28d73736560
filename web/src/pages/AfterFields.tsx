import { dataKept, type NodeReboot } from '~/lib/createform.ts'
import { formatHourly } from '~/lib/format.ts'
import { ChoiceCard } from '~/ui/ChoiceCard.tsx'
import { Tag } from '~/ui/StatusPill.tsx'

type OnStop = 'release' | 'hold'
type OnNodeLoss = 'wait' | 'restart'

/** OnStopField chooses what a stop does with the place, with what each costs. */
export function OnStopField({
  value,
  onChange,
  price,
  currency,
  gpus,
  disk,
  name = 'on-stop',
}: {
  value: OnStop
  onChange: (v: OnStop) => void
  /** While it runs, with what its disk costs. */
  price: number | undefined
  currency: string | undefined
  gpus: number
  /** What the disk costs an hour while it exists, when that is priced. */
  disk: number | undefined
  name?: string
}) {
  const thing = gpus > 1 ? 'the GPUs' : gpus === 1 ? 'the GPU' : 'the place'
  return (
    <div className="grid gap-2 sm:grid-cols-2">
      <ChoiceCard
        name={name}
        value="release"
        checked={value === 'release'}
        onChange={() => onChange('release')}
      >
        <span className="flex flex-wrap justify-between gap-x-3">
          <span className="font-medium">Release {thing}</span>
          <span className="tabular-nums">{disk ? formatHourly(disk, currency) : 'No charge'}</span>
        </span>
        <span className="text-12 text-fg2">
          Nothing but the disk is charged while it is stopped. A start waits for a free place like any other.
        </span>
      </ChoiceCard>
      <ChoiceCard name={name} value="hold" checked={value === 'hold'} onChange={() => onChange('hold')}>
        <span className="flex flex-wrap justify-between gap-x-3">
          <span className="font-medium">Hold {thing}</span>
          <span className="tabular-nums">{price === undefined ? '–' : formatHourly(price, currency)}</span>
        </span>
        <span className="text-12 text-fg2">
          Nobody else can take {gpus > 0 ? thing : 'it'}: it starts at once, at any time. Charged as if it
          ran.
        </span>
      </ChoiceCard>
    </div>
  )
}

/** OnNodeLossField chooses what becomes of it when its machine is gone. */
export function OnNodeLossField({
  value,
  onChange,
  kind,
  name = 'on-node-loss',
}: {
  value: OnNodeLoss
  onChange: (v: OnNodeLoss) => void
  kind: string
  name?: string
}) {
  const local = dataKept(kind)
  return (
    <div className="grid gap-2 sm:grid-cols-2">
      <ChoiceCard
        name={name}
        value="wait"
        checked={value === 'wait' || local}
        onChange={() => onChange('wait')}
      >
        <span className="font-medium">Wait for the node</span>
        <span className="text-12 text-fg2">
          It may go on running there unseen. It shows again when the node does.
        </span>
      </ChoiceCard>
      <ChoiceCard
        name={name}
        value="restart"
        checked={value === 'restart' && !local}
        onChange={() => onChange('restart')}
        reason={local ? 'Its disk lies on the node, so it can start only there' : null}
      >
        <span className={local ? 'text-fg3' : 'font-medium'}>Start elsewhere</span>
        <span className={`text-12 ${local ? 'text-fg3' : 'text-fg2'}`}>
          {local
            ? 'Its disk lies on the node, so it can start only there.'
            : 'Once the old run has certainly ended, it is queued again, from the beginning. Takes a few minutes.'}
        </span>
      </ChoiceCard>
    </div>
  )
}

/** OnNodeRebootField chooses what becomes of it when its machine is booted again. */
export function OnNodeRebootField({
  value,
  onChange,
  kind,
  name = 'on-node-reboot',
}: {
  value: NodeReboot
  onChange: (v: NodeReboot) => void
  kind: string
  name?: string
}) {
  return (
    <div className="grid gap-2 sm:grid-cols-2">
      <ChoiceCard
        name={name}
        value="restart"
        checked={value === 'restart'}
        onChange={() => onChange('restart')}
      >
        <span className="font-medium">Start there again</span>
        <span className="text-12 text-fg2">
          {dataKept(kind)
            ? 'On the same GPUs, with its disk. The time down is not charged.'
            : 'On the same GPUs, from the beginning: what it wrote is gone. The time down is not charged.'}
        </span>
      </ChoiceCard>
      <ChoiceCard name={name} value="fail" checked={value === 'fail'} onChange={() => onChange('fail')}>
        <span className="font-medium">Let it fail</span>
        <span className="text-12 text-fg2">It gives everything back and waits for you to start it.</span>
      </ChoiceCard>
    </div>
  )
}

/** PoolField chooses where it may run; simulated pools say so. */
export function PoolField({
  pools,
  value,
  onChange,
}: {
  pools: readonly { name: string; simulated: boolean }[]
  value: string
  onChange: (pool: string) => void
}) {
  return (
    <div className="grid gap-2 sm:grid-cols-2 xl:grid-cols-3">
      {pools.map((p) => (
        <ChoiceCard
          key={p.name}
          name="pool"
          value={p.name}
          checked={value === p.name}
          onChange={() => onChange(p.name)}
        >
          <span className="flex items-center gap-2 font-medium">
            {p.name}
            {p.simulated && <Tag title="Nodes and GPUs of this pool are simulated">sim</Tag>}
          </span>
          <span className="text-12 text-fg2">
            {p.simulated
              ? 'Simulated nodes: every state and delay, but nothing really runs.'
              : 'The nodes of this cloud.'}
          </span>
        </ChoiceCard>
      ))}
    </div>
  )
}
