import type { NodeStay } from '~/api/fleet.ts'
import { sentence } from '~/lib/format.ts'
import { kindWord } from '~/lib/instancestate.ts'
import { stayWord } from '~/lib/nodestate.ts'
import { Bone } from '~/ui/State.tsx'
import { type Column, Table } from '~/ui/Table.tsx'

const columns: Column<NodeStay>[] = [
  {
    id: 'what',
    header: 'What',
    growNarrow: true,
    cell: (s) => (
      <>
        <span className="block truncate pt-1 font-medium leading-4">
          {s.instance || s.orphan || s.volume_id || s.instance_id}
        </span>
        <span className="block truncate pb-1 text-12 leading-4 text-fg3">
          {s.orphan ? 'assigned to nobody' : `${kindWord[s.kind] ?? s.kind}${s.org ? ` of ${s.org}` : ''}`}
        </span>
        <span className="block pb-1 text-12 leading-4 whitespace-normal text-fg2 md:hidden">
          {sentence(s.message)}
        </span>
      </>
    ),
  },
  {
    id: 'reason',
    header: 'Reason',
    cell: (s) => stayWord[s.reason] ?? sentence(s.reason.replaceAll('_', ' ')),
  },
  {
    id: 'why',
    header: 'Why it stays, and what moves it',
    grow: true,
    from: 'md',
    cell: (s) => (
      <span className="text-fg2" title={s.message}>
        {sentence(s.message)}
      </span>
    ),
  },
]

const keyOf = (s: NodeStay) => `${s.reason} ${s.instance_id ?? ''} ${s.volume_id ?? ''} ${s.orphan ?? ''}`

/** NodeStays is what a drain leaves on a node, and why. */
export function NodeStays({ stays }: { stays: readonly NodeStay[] | undefined }) {
  if (stays?.length === 0)
    return <p className="px-4 py-3 text-13 text-fg3">Nothing: it can be switched off without a loss.</p>
  return <Table label="What stays" columns={columns} rows={stays} rowKey={keyOf} skeletonRows={2} />
}

/** StaysList is the same, short, for a dialog. */
export function StaysList({ stays, nothing }: { stays: readonly NodeStay[] | undefined; nothing: string }) {
  if (!stays)
    return (
      <div className="flex flex-col gap-2">
        <Bone className="w-2/3" />
        <Bone className="w-1/2" />
      </div>
    )
  if (stays.length === 0) return <p>{nothing}</p>
  return (
    <section aria-label="What stays">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
      <ul tabIndex={0} className="max-h-56 divide-y divide-line overflow-y-auto border-y border-line">
        {stays.map((s) => (
          <li key={keyOf(s)} className="py-1.5">
            <span className="flex flex-wrap items-baseline justify-between gap-x-4">
              <span className="min-w-0 truncate font-medium text-fg">
                {s.instance || s.orphan || s.volume_id || s.instance_id}
                {s.org && <span className="font-normal text-fg3"> of {s.org}</span>}
              </span>
              <span className="text-12">{stayWord[s.reason] ?? s.reason}</span>
            </span>
            <span className="block text-12 text-fg3">{sentence(s.message)}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}
