import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useParams } from '@tanstack/react-router'
import { type Instance, instanceQuery } from '~/api/instance.ts'
import { failureOf, isNotFound } from '~/api/problem.ts'
import { useNow } from '~/lib/clock.ts'
import { kindWord, nothingRuns } from '~/lib/instancestate.ts'
import { useTitle } from '~/lib/title.ts'
import { buttonClass } from '~/ui/Button.tsx'
import { Page, Panel, TabBar, tabClass } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { InstanceButtons } from './InstanceButtons.tsx'
import { InstancePill } from './InstanceState.tsx'

const from = '/app/projects/$project/instances/$instance'

/** useInstance is the instance that the page is about; tabs are shown only once it is there. */
export function useInstance(): Instance | undefined {
  const { project, instance } = useParams({ from })
  return useQuery(instanceQuery(project, instance)).data
}

export function InstancePage() {
  const params = useParams({ from })
  const { project, instance: ref } = params
  const { data: i, error, refetch, isFetching, dataUpdatedAt } = useQuery(instanceQuery(project, ref))
  const now = useNow(5)
  useTitle(i?.name ?? ref)

  const crumb = (
    <nav aria-label="Breadcrumb" className="mb-1 text-12 text-fg3">
      <Link to="/projects/$project/instances" params={{ project }} className="link !text-fg3">
        Instances
      </Link>
    </nav>
  )
  const gone = isNotFound(error) // also when it was there a moment ago
  if (error && (!i || gone))
    return (
      <Page title={ref} above={crumb}>
        <Panel>
          {gone ? (
            <Empty
              icon="search"
              title="There is no such instance"
              action={
                <Link
                  to="/projects/$project/instances"
                  params={{ project }}
                  className={buttonClass('secondary')}
                >
                  All instances
                </Link>
              }
            >
              “{ref}” does not exist in this project, or was deleted. What it cost stays in the usage.
            </Empty>
          ) : (
            <ErrorState
              failure={failureOf(error, 'show this instance')}
              onRetry={() => void refetch()}
              busy={isFetching}
            />
          )}
        </Panel>
      </Page>
    )
  if (!i)
    return (
      <Page title={ref} above={crumb}>
        <Bone className="mb-6 h-8 w-full" />
        <div className="grid gap-4 lg:grid-cols-2">
          <Bone className="h-44 w-full rounded-box lg:col-span-2" />
          <Bone className="h-72 w-full rounded-box" />
          <Bone className="h-72 w-full rounded-box" />
        </div>
      </Page>
    )
  return (
    <Page
      above={crumb}
      title={
        <>
          <span className="min-w-0 break-all">{i.name}</span>
          <span className="text-13 font-normal tracking-normal">
            <InstancePill instance={i} live />
          </span>
          {i.kind !== 'container' && <Tag>{kindWord[i.kind]}</Tag>}
          {i.simulated && <Tag title="Its GPUs, or the whole of it, are simulated">sim</Tag>}
        </>
      }
      actions={
        i.job ? (
          <Link
            to="/projects/$project/jobs/$job"
            params={{ project, job: i.job }}
            className={buttonClass('secondary')}
          >
            Go to job {i.job}
          </Link>
        ) : (
          <InstanceButtons instance={i} project={project} />
        )
      }
    >
      <TabBar label="Instance">
        <Link
          to="/projects/$project/instances/$instance"
          params={params}
          activeOptions={{ exact: true }}
          className={tabClass}
        >
          Overview
        </Link>
        {i.kind === 'vm' ? (
          <>
            <Link to="/projects/$project/instances/$instance/console" params={params} className={tabClass}>
              Console
            </Link>
            {!nothingRuns(i) && (
              <Link to="/projects/$project/instances/$instance/screen" params={params} className={tabClass}>
                Screen
              </Link>
            )}
          </>
        ) : (
          <>
            <Link to="/projects/$project/instances/$instance/terminal" params={params} className={tabClass}>
              Terminal
            </Link>
            <Link to="/projects/$project/instances/$instance/logs" params={params} className={tabClass}>
              Logs
            </Link>
          </>
        )}
        <Link to="/projects/$project/instances/$instance/metrics" params={params} className={tabClass}>
          Metrics
        </Link>
        <Link to="/projects/$project/instances/$instance/events" params={params} className={tabClass}>
          Events
        </Link>
      </TabBar>
      <Stale since={error ? dataUpdatedAt : null} now={now}>
        <Outlet />
      </Stale>
    </Page>
  )
}
