import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { meQuery, type Project, projectQuery, projectUpdate } from '~/api/me.ts'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { useNow } from '~/lib/clock.ts'
import { formatDuration } from '~/lib/format.ts'
import { useTitle } from '~/lib/title.ts'
import { Button } from '~/ui/Button.tsx'
import { TextField } from '~/ui/Field.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'
import { Segmented } from '~/ui/Segmented.tsx'
import { Bone, ErrorState, Notice, Stale } from '~/ui/State.tsx'
import { toast } from '~/ui/Toast.tsx'
import { RegistryCredentials } from './RegistryCredentials.tsx'

export function SettingsPage() {
  useTitle('Settings')
  const { project } = useParams({ from: '/app/projects/$project/settings' })
  const { data: me } = useSuspenseQuery(meQuery)
  const { data, error, refetch, isFetching, dataUpdatedAt } = useQuery(projectQuery(project))
  const now = useNow(5)
  return (
    <Page
      title="Settings"
      lead="Of this project: how it is shown, idle notebooks, and other registries."
      narrow
    >
      {error && !data ? (
        <Panel>
          <ErrorState
            failure={failureOf(error, 'read the settings')}
            onRetry={() => void refetch()}
            busy={isFetching}
          />
        </Panel>
      ) : (
        <Stale since={error && data ? dataUpdatedAt : null} now={now}>
          <div className="flex flex-col gap-4">
            {data ? (
              <>
                <NamePanel
                  key={data.display_name}
                  project={data}
                  mayChange={me.actions.includes('project.update')}
                />
                <IdlePanel
                  key={`${data.idle_stop_seconds} ${data.idle_warn_seconds}`}
                  project={data}
                  mayChange={me.actions.includes('project.update')}
                />
              </>
            ) : (
              [0, 1].map((n) => <Bone key={n} className="h-44 w-full rounded-box" />)
            )}
            <RegistryCredentials project={project} />
          </div>
        </Stale>
      )}
    </Page>
  )
}

function useSave(project: Project, said: string) {
  return useMutation({
    mutationFn: (body: Parameters<typeof projectUpdate>[1]) => projectUpdate(project.id, body),
    onSuccess: async () => {
      toast('green', said)
      await Promise.all([
        queryClient.invalidateQueries({ queryKey: ['project'] }),
        queryClient.invalidateQueries({ queryKey: ['projects'] }),
      ])
    },
  })
}

const notYours = 'Your role may not change the project'

function NamePanel({ project, mayChange }: { project: Project; mayChange: boolean }) {
  const [name, setName] = useState(project.display_name)
  const save = useSave(project, 'The name is changed')
  const problem = save.error instanceof ApiProblem ? save.error : null
  return (
    <Panel title="Name">
      <form
        className="flex flex-wrap items-end gap-3"
        onSubmit={(e: FormEvent) => {
          e.preventDefault()
          if (mayChange && name !== project.display_name) save.mutate({ display_name: name })
        }}
      >
        <TextField
          label="Shown as"
          className="w-full max-w-sm"
          value={name}
          maxLength={200}
          disabled={!mayChange}
          placeholder={project.name}
          error={problem?.field('display_name') ?? problem?.message}
          onChange={(e) => setName(e.target.value)}
        />
        <Button
          type="submit"
          busy={save.isPending}
          reason={!mayChange ? notYours : name === project.display_name ? 'Nothing is changed yet' : null}
        >
          Save name
        </Button>
      </form>
      <p className="mt-2 text-12 text-fg3">
        In addresses and commands it stays <code className="font-mono">{project.name}</code>.
      </p>
    </Panel>
  )
}

/** IdlePanel sets after how long an idle notebook is stopped, and how long before that it is told. */
function IdlePanel({ project, mayChange }: { project: Project; mayChange: boolean }) {
  const stop = project.idle_stop_seconds ?? null
  const warn = project.idle_warn_seconds ?? 600
  const [on, setOn] = useState(stop !== null)
  const [after, setAfter] = useState(String((stop ?? 3600) / 60))
  const [before, setBefore] = useState(String(warn / 60))
  const save = useSave(
    project,
    on ? 'Idle notebooks are stopped from now on' : 'Idle notebooks are left alone',
  )
  const problem = save.error instanceof ApiProblem ? save.error : null
  const afterSeconds = Math.round(Number(after) * 60)
  const beforeSeconds = Math.round(Number(before) * 60)
  const afterError =
    on && !(afterSeconds >= 60 && afterSeconds <= 2_592_000) ? 'From 1 minute to 30 days' : null
  const beforeError =
    on && !(beforeSeconds >= 0 && beforeSeconds <= 86_400)
      ? 'From 0 minutes to a day'
      : on && !afterError && beforeSeconds >= afterSeconds
        ? 'Less than the time after which it is stopped'
        : null
  const same = on ? stop === afterSeconds && warn === beforeSeconds : stop === null
  return (
    <Panel title="Idle notebooks">
      <form
        className="flex flex-col gap-4"
        onSubmit={(e: FormEvent) => {
          e.preventDefault()
          if (!mayChange || same || afterError || beforeError) return
          save.mutate(
            on
              ? { idle_stop_seconds: afterSeconds, idle_warn_seconds: beforeSeconds }
              : { idle_stop_seconds: null },
          )
        }}
      >
        {problem && problem.rest(['idle_stop_seconds', 'idle_warn_seconds']).length > 0 && (
          <Notice tone="red" requestId={problem.problem.request_id}>
            {problem.message}
          </Notice>
        )}
        <div>
          <Segmented
            label="When a notebook is idle"
            value={on ? 'stop' : 'never'}
            onChange={(v) => mayChange && setOn(v === 'stop')}
            options={[
              { value: 'never', label: 'Leave it running' },
              { value: 'stop', label: 'Stop it' },
            ]}
          />
        </div>
        {on && (
          <div className="flex flex-wrap gap-4">
            <TextField
              label="After"
              type="number"
              min={1}
              step="any"
              unit="min"
              className="w-40"
              value={after}
              disabled={!mayChange}
              error={afterError ?? problem?.field('idle_stop_seconds')}
              hint={afterError ? undefined : `${formatDuration(afterSeconds)} without work`}
              onChange={(e) => setAfter(e.target.value)}
            />
            <TextField
              label="Warn before"
              type="number"
              min={0}
              step="any"
              unit="min"
              className="w-40"
              value={before}
              disabled={!mayChange}
              error={beforeError ?? problem?.field('idle_warn_seconds')}
              onChange={(e) => setBefore(e.target.value)}
            />
          </div>
        )}
        <div>
          <Button
            type="submit"
            busy={save.isPending}
            reason={!mayChange ? notYours : same ? 'Nothing is changed yet' : (afterError ?? beforeError)}
          >
            Save idle policy
          </Button>
        </div>
      </form>
      <p className="mt-3 max-w-[72ch] text-12 text-fg3">
        Idle is: no kernel works, the GPU does next to nothing, and no terminal is in use. An open tab is not
        work, and figures that are missing are not idleness: then it goes on running. The home folder is kept,
        and charging for the GPU ends.
      </p>
    </Panel>
  )
}
