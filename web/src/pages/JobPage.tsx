import { useMutation, useQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { type Job, jobCancel, jobDelete, jobQuery, over } from '~/api/job.ts'
import { failureOf, isNotFound } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { useNow } from '~/lib/clock.ts'
import { plural } from '~/lib/format.ts'
import { jobTone, jobWord } from '~/lib/jobstate.ts'
import { useTitle } from '~/lib/title.ts'
import { AskDialog } from '~/ui/AskDialog.tsx'
import { Button, buttonClass } from '~/ui/Button.tsx'
import { Page, Panel, TabBar, tabClass } from '~/ui/Layout.tsx'
import { Bone, Empty, ErrorState, Stale } from '~/ui/State.tsx'
import { StatusPill, Tag } from '~/ui/StatusPill.tsx'
import { toast } from '~/ui/Toast.tsx'

const from = '/app/projects/$project/jobs/$job'

/** useJob is the job that the page is about; tabs are shown only once it is there. */
export function useJob(): Job | undefined {
  const { project, job } = useParams({ from })
  return useQuery(jobQuery(project, job)).data
}

export function JobPage() {
  const params = useParams({ from })
  const { project, job: ref } = params
  const { data: j, error, refetch, isFetching, dataUpdatedAt } = useQuery(jobQuery(project, ref))
  const now = useNow(5)
  useTitle(j?.name ?? ref)
  const crumb = (
    <nav aria-label="Breadcrumb" className="mb-1 text-12 text-fg3">
      <Link to="/projects/$project/jobs" params={{ project }} className="link !text-fg3">
        Jobs
      </Link>
    </nav>
  )
  const gone = isNotFound(error)
  if (error && (!j || gone))
    return (
      <Page title={ref} above={crumb}>
        <Panel>
          {gone ? (
            <Empty
              icon="search"
              title="There is no such job"
              action={
                <Link to="/projects/$project/jobs" params={{ project }} className={buttonClass('secondary')}>
                  All jobs
                </Link>
              }
            >
              “{ref}” does not exist in this project, or was deleted. What it cost stays in the usage.
            </Empty>
          ) : (
            <ErrorState
              failure={failureOf(error, 'show this job')}
              onRetry={() => void refetch()}
              busy={isFetching}
            />
          )}
        </Panel>
      </Page>
    )
  if (!j)
    return (
      <Page title={ref} above={crumb}>
        <Bone className="mb-6 h-8 w-full" />
        <Bone className="h-72 w-full rounded-box" />
      </Page>
    )
  return (
    <Page
      above={crumb}
      title={
        <>
          <span className="min-w-0 break-all">{j.name}</span>
          <span className="text-13 font-normal tracking-normal">
            <StatusPill tone={jobTone(j.state)} live>
              {jobWord(j.state)}
            </StatusPill>
          </span>
          {j.simulated && <Tag title="Its GPUs, or all of it, are simulated">sim</Tag>}
        </>
      }
      actions={<JobButtons j={j} project={project} />}
    >
      <TabBar label="Job">
        <Link
          to="/projects/$project/jobs/$job"
          params={params}
          activeOptions={{ exact: true }}
          className={tabClass}
        >
          Overview
        </Link>
        <Link to="/projects/$project/jobs/$job/logs" params={params} className={tabClass}>
          Logs
        </Link>
        <Link to="/projects/$project/jobs/$job/events" params={params} className={tabClass}>
          Events
        </Link>
      </TabBar>
      <Stale since={error ? dataUpdatedAt : null} now={now}>
        <Outlet />
      </Stale>
    </Page>
  )
}

function JobButtons({ j, project }: { j: Job; project: string }) {
  const [asking, setAsking] = useState<'cancel' | 'delete' | null>(null)
  const navigate = useNavigate()
  const act = useMutation({
    mutationFn: (what: 'cancel' | 'delete') => (what === 'cancel' ? jobCancel : jobDelete)(project, j.id),
    onSuccess: async (_, what) => {
      setAsking(null)
      toast('green', `${j.name} is being ${what === 'cancel' ? 'cancelled' : 'deleted'}`)
      await queryClient.invalidateQueries({ queryKey: ['jobs', project] })
      if (what === 'delete') await navigate({ to: '/projects/$project/jobs', params: { project } })
      else await queryClient.invalidateQueries({ queryKey: ['job', project] })
    },
  })
  const close = () => {
    act.reset()
    setAsking(null)
  }
  const cancelled = over(j) || j.desired_state !== 'running'
  const deleting = j.desired_state === 'deleted'
  return (
    <>
      <Button
        reason={
          deleting
            ? 'It is being deleted'
            : over(j)
              ? `It is over: ${j.state}`
              : cancelled
                ? 'It is being cancelled'
                : null
        }
        onClick={() => setAsking('cancel')}
      >
        Cancel job…
      </Button>
      <Button
        look="danger"
        reason={deleting ? 'It is being deleted' : null}
        onClick={() => setAsking('delete')}
      >
        Delete…
      </Button>
      <AskDialog
        open={asking !== null}
        title={`${asking === 'delete' ? 'Delete' : 'Cancel'} ${j.name}?`}
        says={
          asking === 'delete'
            ? 'Its members are removed, with everything written in them and their logs. Its events and its usage stay.'
            : `${j.counts.active ? `${plural(j.counts.active, 'member')} on a node ${j.counts.active === 1 ? 'is' : 'are'} stopped. ` : ''}The job, its members’ last lines and its history stay. It can’t be started again.`
        }
        verb={asking === 'delete' ? 'Delete' : 'Cancel job'}
        keep="Keep it"
        danger
        busy={act.isPending}
        failure={act.error ? failureOf(act.error, `${asking ?? 'change'} ${j.name}`) : null}
        onClose={close}
        onConfirm={() => asking && act.mutate(asking)}
      />
    </>
  )
}
