import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { jobEventsQuery } from '~/api/job.ts'
import { jobTone, memberState } from '~/lib/jobstate.ts'
import { SelectField } from '~/ui/Field.tsx'
import { EventsPanel } from './InstanceEvents.tsx'
import { LogView } from './InstanceLogs.tsx'
import { useJob } from './JobPage.tsx'

/** JobLogs is the log of one member at a time; the command line interleaves them. */
export function JobLogs() {
  const { project } = useParams({ from: '/app/projects/$project/jobs/$job' })
  const { rank = 0 } = useSearch({ from: '/app/projects/$project/jobs/$job/logs' })
  const navigate = useNavigate({ from: '/projects/$project/jobs/$job/logs' })
  const j = useJob()
  const m = j?.members?.find((x) => x.rank === rank) ?? j?.members?.[0]
  if (!j || !m) return null
  return (
    <LogView
      key={m.instance_id}
      project={project}
      instance={m.instance_id}
      state={m.state}
      more={
        (j.members?.length ?? 0) > 1 && (
          <SelectField
            label="Member"
            hideLabel
            className="w-full sm:w-56"
            value={m.rank}
            onChange={(e) => void navigate({ search: { rank: Number(e.target.value) }, replace: true })}
          >
            {j.members?.map((x) => (
              <option key={x.rank} value={x.rank}>
                {x.instance}: {memberState(x).word.toLowerCase()}
              </option>
            ))}
          </SelectField>
        )
      }
    />
  )
}

export function JobEvents() {
  const { project, job } = useParams({ from: '/app/projects/$project/jobs/$job' })
  return (
    <EventsPanel
      asked={useQuery(jobEventsQuery(project, job))}
      toneOf={(e) => {
        const state = e.data?.state
        return typeof state === 'string' &&
          ['cancelling', 'deleting', 'task_again'].includes(e.verb) === false
          ? jobTone(state)
          : null
      }}
    />
  )
}
