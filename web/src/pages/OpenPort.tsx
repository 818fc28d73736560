import { useMutation } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { type Instance, portOpen } from '~/api/instance.ts'
import { failureOf } from '~/api/problem.ts'
import { instanceCan } from '~/lib/instancestate.ts'
import { Button, type ButtonLook } from '~/ui/Button.tsx'
import { Icon } from '~/ui/Icon.tsx'
import { toast } from '~/ui/Toast.tsx'

/**
 * useOpenPort opens a web server of an instance in a tab of its own. The tab is opened by the click itself,
 * so that no pop-up blocker holds it back, and is led to its address once that is there.
 */
export function useOpenPort(project: string, instance: Instance) {
  const opening = useMutation({
    mutationFn: async ({ port, tab }: { port: number; tab: Window | null }) => {
      try {
        const { url } = await portOpen(project, instance.id, port)
        if (tab && !tab.closed) tab.location.replace(url)
        else location.assign(url) // blocked after all: here, with the way back in the history
      } catch (e) {
        tab?.close()
        throw e
      }
    },
    onError: (e) => {
      const f = failureOf(e, 'open it')
      toast('red', f.message, f.hint ?? (f.requestId && `Request ${f.requestId}`))
    },
  })
  return {
    busy: opening.isPending ? opening.variables.port : null,
    open: (port: number) => {
      const tab = window.open('', '_blank')
      if (tab) {
        tab.opener = null
        tab.document.title = `Opening port ${port} of ${instance.name}`
        tab.document.body.textContent = 'Opening…'
      }
      opening.mutate({ port, tab })
    },
  }
}

export function OpenButton({
  project,
  instance,
  port,
  look,
  small,
  children,
}: {
  project: string
  instance: Instance
  port: number
  look?: ButtonLook
  small?: boolean
  children: ReactNode
}) {
  const { open, busy } = useOpenPort(project, instance)
  return (
    <Button
      look={look}
      small={small}
      busy={busy !== null}
      reason={instanceCan.open(instance.state)}
      onClick={() => open(port)}
    >
      {children}
      <Icon name="external" size={14} />
      <span className="sr-only">(in a new tab)</span>
    </Button>
  )
}
