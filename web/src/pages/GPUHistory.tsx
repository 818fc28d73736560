import { useInfiniteQuery } from '@tanstack/react-query'
import { type GPUStay, historyQuery } from '~/api/card.ts'
import type { GPU } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { formatExact } from '~/lib/format.ts'
import { heldWords } from '~/lib/places.ts'
import { Button } from '~/ui/Button.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Elapsed } from '~/ui/Time.tsx'
import { Holder, TenantName } from './GPUHolder.tsx'

const columns: Column<GPUStay>[] = [
  {
    id: 'instance',
    header: 'Instance',
    growNarrow: true,
    cell: (s) => (
      <Holder
        name={s.instance}
        tenant={s.organisation}
        what={s.profile_name}
        where={`${heldWords(s)}, run ${s.epoch}`}
      >
        <span className="whitespace-nowrap tabular-nums">From {formatExact(s.from)}</span>
      </Holder>
    ),
  },
  {
    id: 'tenant',
    header: 'Organisation',
    grow: true,
    from: 'sm',
    cell: (s) => <TenantName name={s.organisation} />,
  },
  { id: 'profile', header: 'Profile', from: 'sm', cell: (s) => s.profile_name },
  { id: 'slots', header: 'Where', from: 'sm', cell: heldWords },
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
        {!s.to && <span className="text-fg3"> so far</span>}
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
