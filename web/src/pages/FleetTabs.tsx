import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { alarmsQuery } from '~/api/fleet.ts'
import { meQuery } from '~/api/me.ts'
import { Page, Panel, TabBar, tabClass } from '~/ui/Layout.tsx'
import { Empty } from '~/ui/State.tsx'

/** FleetFrame is the frame of the operators' pages: others are told whom they are for. */
export function FleetFrame({
  lead,
  actions,
  children,
}: {
  lead: string
  actions?: ReactNode
  children: ReactNode
}) {
  const { data: me } = useSuspenseQuery(meQuery)
  const { data: alarms } = useQuery({ ...alarmsQuery, enabled: me.user.operator })
  if (!me.user.operator)
    return (
      <Page title="Fleet">
        <Panel>
          <Empty icon="fleet" title="For operators">
            The fleet shows every tenant’s work, so only platform operators see it.
          </Empty>
        </Panel>
      </Page>
    )
  const open = alarms?.filter((a) => a.state === 'open').length ?? 0
  return (
    <Page title="Fleet" lead={lead} actions={actions}>
      <TabBar label="Fleet">
        <Link to="/fleet" activeOptions={{ exact: true, includeSearch: false }} className={tabClass}>
          Map
        </Link>
        <Link to="/fleet/alarms" activeOptions={{ includeSearch: false }} className={tabClass}>
          Alarms
          {open > 0 && (
            <span className="ml-1.5 rounded-full bg-red-wash px-1.5 text-[11px] leading-4 font-medium text-red tabular-nums">
              {open}
              <span className="sr-only"> open</span>
            </span>
          )}
        </Link>
        <Link to="/fleet/control-plane" className={tabClass}>
          Control plane
        </Link>
      </TabBar>
      {children}
    </Page>
  )
}
