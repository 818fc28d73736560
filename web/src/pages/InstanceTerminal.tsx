import { Link, useParams } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { instanceCan } from '~/lib/instancestate.ts'
import { buttonClass } from '~/ui/Button.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { Bone, Empty } from '~/ui/State.tsx'
import { useInstance } from './InstancePage.tsx'

const TerminalView = lazy(() => import('./TerminalView.tsx'))

export function InstanceTerminal() {
  const params = useParams({ from: '/app/projects/$project/instances/$instance' })
  const i = useInstance()
  if (!i) return null
  const reason = instanceCan.terminal(i.state)
  if (reason)
    return (
      <Panel>
        <Empty
          icon="terminal"
          title="No terminal now"
          action={
            <Link
              to="/projects/$project/instances/$instance"
              params={params}
              className={buttonClass('secondary')}
            >
              Overview
            </Link>
          }
        >
          {reason}.
        </Empty>
      </Panel>
    )
  return (
    <Suspense fallback={<Bone className="h-[62dvh] w-full rounded-box" />}>
      <TerminalView project={params.project} instance={i.name} />
    </Suspense>
  )
}
