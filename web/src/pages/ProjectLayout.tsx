import { useSuspenseQuery } from '@tanstack/react-query'
import { Link, Outlet, useParams } from '@tanstack/react-router'
import { useEffect } from 'react'
import { watchProject } from '~/api/events.ts'
import { projectsQuery } from '~/api/me.ts'
import { buttonClass } from '~/ui/Button.tsx'
import { Empty } from '~/ui/State.tsx'

/** ProjectLayout follows the project's changes while one of its pages is open. */
export function ProjectLayout() {
  const { project } = useParams({ from: '/app/projects/$project' })
  const { data: projects } = useSuspenseQuery(projectsQuery)
  const known = projects.some((p) => p.name === project || p.id === project)
  useEffect(() => (known ? watchProject(project) : undefined), [project, known])
  if (!known)
    return (
      <div className="pt-[10vh]">
        <Empty
          icon="search"
          title="There is no such project"
          action={
            <Link to="/" className={buttonClass('secondary')}>
              Go to your instances
            </Link>
          }
        >
          “{project}” does not exist, or is not yours to see.
        </Empty>
      </div>
    )
  return <Outlet />
}
