import { Link, useParams } from '@tanstack/react-router'
import { type ReactNode, Suspense } from 'react'
import { buttonClass } from '~/ui/Button.tsx'
import type { IconName } from '~/ui/Icon.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { Bone, Empty } from '~/ui/State.tsx'

/** StreamTab opens a terminal, a console or a screen when there is one, and says why when there is not. */
export function StreamTab({
  reason,
  title,
  icon,
  children,
}: {
  reason: string | null
  title: string
  icon: IconName
  children: ReactNode
}) {
  const params = useParams({ from: '/app/projects/$project/instances/$instance' })
  if (reason)
    return (
      <Panel>
        <Empty
          icon={icon}
          title={title}
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
  return <Suspense fallback={<Bone className="h-[62dvh] w-full rounded-box" />}>{children}</Suspense>
}
