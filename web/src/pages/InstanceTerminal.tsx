import { useParams } from '@tanstack/react-router'
import { lazy } from 'react'
import { instanceCan } from '~/lib/instancestate.ts'
import { useInstance } from './InstancePage.tsx'
import { StreamTab } from './StreamTab.tsx'

const TerminalView = lazy(() => import('./TerminalView.tsx'))

export function InstanceTerminal() {
  const { project } = useParams({ from: '/app/projects/$project/instances/$instance' })
  const i = useInstance()
  if (!i) return null
  const reason =
    i.kind === 'vm' ? 'A VM has a serial console and a screen, and takes SSH' : instanceCan.terminal(i.state)
  return (
    <StreamTab reason={reason} title="No terminal now" icon="terminal">
      <TerminalView project={project} instance={i.name} />
    </StreamTab>
  )
}
