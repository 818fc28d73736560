import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Instance } from '~/api/instance.ts'
import { canWithoutGPU, instanceCan, startRefusal } from '~/lib/instancestate.ts'
import { Button, IconButton } from '~/ui/Button.tsx'
import { Menu } from '~/ui/Menu.tsx'
import { ChangeAfter } from './ChangeAfter.tsx'
import { type Asked, ConfirmAction, useInstanceAction } from './instanceactions.tsx'
import { OpenButton } from './OpenPort.tsx'
import { ResizeDialog } from './ResizeDialog.tsx'

/** InstanceButtons are what can be done now; what can't says why. */
export function InstanceButtons({ instance: i, project }: { instance: Instance; project: string }) {
  const act = useInstanceAction(project)
  const navigate = useNavigate()
  const [asking, setAsking] = useState<Asked | null>(null)
  const [dialog, setDialog] = useState<'resize' | 'after' | null>(null)
  const running = act.isPending ? act.variables?.action : null
  const held = i.held && i.state === 'stopped'
  return (
    <>
      {i.kind === 'notebook' && (
        <OpenButton project={project} instance={i} port={8888} look="primary">
          Open notebook
        </OpenButton>
      )}
      <Button
        reason={startRefusal(i)}
        busy={running === 'start'}
        onClick={() => act.mutate({ action: 'start', targets: [i] })}
      >
        Start
      </Button>
      {held ? (
        <Button onClick={() => setAsking('release')}>
          {i.gpu_count > 0 ? 'Release GPU…' : 'Release place…'}
        </Button>
      ) : (
        <Button reason={instanceCan.stop(i.state)} onClick={() => setAsking('stop')}>
          Stop…
        </Button>
      )}
      <Button
        reason={instanceCan.restart(i.state)}
        busy={running === 'restart'}
        onClick={() => act.mutate({ action: 'restart', targets: [i] })}
      >
        Restart
      </Button>
      <Button look="danger" reason={instanceCan.delete(i.state)} onClick={() => setAsking('delete')}>
        Delete…
      </Button>
      <Menu
        label="More actions"
        trigger={<IconButton label="More actions" icon="more" />}
        items={[
          ...(canWithoutGPU(i)
            ? [
                {
                  label: 'Start without GPU',
                  reason: held ? 'Its GPU is held: release it first' : startRefusal(i),
                  onSelect: () =>
                    act.mutate({ action: 'start' as const, targets: [i], options: { withoutGPU: true } }),
                },
              ]
            : []),
          {
            label: 'Change shape…',
            reason: instanceCan.resize(i.state, i.held),
            onSelect: () => setDialog('resize'),
          },
          {
            label: i.kind === 'vm' ? 'When it or its node stops…' : 'When its node stops…',
            onSelect: () => setDialog('after'),
          },
        ]}
      />
      <ConfirmAction
        action={asking}
        targets={[i]}
        busy={act.isPending}
        onClose={() => setAsking(null)}
        onConfirm={(targets, options) => {
          if (!asking) return
          const action = asking === 'release' ? 'stop' : asking
          // As a promise: a deleted instance takes this page away before a callback comes.
          act
            .mutateAsync({ action, targets, options })
            .then((ok) => {
              if (ok && action === 'delete')
                void navigate({ to: '/projects/$project/instances', params: { project } })
            })
            .catch(() => undefined)
            .finally(() => setAsking(null))
        }}
      />
      <ResizeDialog
        instance={i}
        project={project}
        open={dialog === 'resize'}
        onClose={() => setDialog(null)}
      />
      <ChangeAfter instance={i} project={project} open={dialog === 'after'} onClose={() => setDialog(null)} />
    </>
  )
}
