import { useParams } from '@tanstack/react-router'
import { lazy } from 'react'
import { instanceCan, nothingRuns } from '~/lib/instancestate.ts'
import { useInstance } from './InstancePage.tsx'
import { StreamTab } from './StreamTab.tsx'

const ConsoleView = lazy(() => import('./ConsoleView.tsx'))
const ScreenView = lazy(() => import('./ScreenView.tsx'))

const from = '/app/projects/$project/instances/$instance'

export function InstanceConsole() {
  const { project } = useParams({ from })
  const i = useInstance()
  if (!i) return null
  // the console is worth reading while the machine starts: that is what it shows best
  const reason =
    i.kind === 'vm'
      ? i.state === 'starting' || i.state === 'stopping'
        ? null
        : instanceCan.console(i.state)
      : 'A serial console is for VMs: this has a terminal'
  return (
    <StreamTab reason={reason} title="No console now" icon="terminal">
      <ConsoleView project={project} instance={i.name} />
    </StreamTab>
  )
}

export function InstanceScreen() {
  const { project } = useParams({ from })
  const i = useInstance()
  if (!i) return null
  const reason =
    i.kind === 'vm'
      ? nothingRuns(i)
        ? 'It is simulated: no machine runs, so there is no screen'
        : i.state === 'starting' || i.state === 'stopping'
          ? null
          : instanceCan.screen(i.state)
      : 'A screen is for VMs: this has a terminal'
  return (
    <StreamTab reason={reason} title="No screen now" icon="screen">
      <ScreenView project={project} instance={i.name} />
    </StreamTab>
  )
}
