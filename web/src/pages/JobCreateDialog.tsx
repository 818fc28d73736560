import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { newKey } from '~/api/client.ts'
import { jobCreate, jobsQuery } from '~/api/job.ts'
import { flavorsQuery, imagesQuery } from '~/api/offer.ts'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { nextName, parseEnv } from '~/lib/createform.ts'
import { formatHourly, sentence } from '~/lib/format.ts'
import { emptyJob, type JobForm, toJobCLI, toJobRequest, wrongJob } from '~/lib/jobform.ts'
import { gpuShort } from '~/lib/shape.ts'
import { AskDialog } from '~/ui/AskDialog.tsx'
import { CodeBlock } from '~/ui/CopyButton.tsx'
import { SelectField, TextArea, TextField } from '~/ui/Field.tsx'
import { Segmented } from '~/ui/Segmented.tsx'

/** JobCreateDialog asks for a job; the server's own words come back to the field that they are about. */
export function JobCreateDialog({
  project,
  open,
  onClose,
}: {
  project: string
  open: boolean
  onClose: () => void
}) {
  const navigate = useNavigate()
  const { data: images } = useQuery(imagesQuery)
  const { data: flavors } = useQuery(flavorsQuery)
  const { data: jobs } = useQuery(jobsQuery(project))
  const [form, setForm] = useState<JobForm>(emptyJob)
  const key = useRef(newKey())
  const containers = images?.filter((i) => i.kind === 'container') ?? []
  const current: JobForm = {
    ...form,
    name: form.name ?? nextName(jobs?.map((j) => j.name) ?? [], 'job'),
    image: form.image || (containers.length === 1 ? (containers[0]?.name ?? '') : ''),
  }
  const run = useMutation({
    mutationFn: () => jobCreate(project, toJobRequest(current), key.current),
    onSuccess: async (j) => {
      await queryClient.invalidateQueries({ queryKey: ['jobs', project] })
      setForm(emptyJob)
      onClose()
      await navigate({ to: '/projects/$project/jobs/$job', params: { project, job: j.name } })
    },
    onSettled: () => {
      key.current = newKey() // another try is another request
    },
  })
  const rejected = run.error instanceof ApiProblem ? run.error : null
  const shown = [
    'name',
    'image',
    'flavor',
    'members',
    'members_min',
    'array',
    'parallel',
    'command',
    'env',
    'retries',
    'max_seconds',
  ]
  const rest = rejected?.rest(shown) ?? []
  const failure =
    run.error && (!rejected || rest.length > 0)
      ? {
          ...failureOf(run.error, 'run the job'),
          ...(rejected ? { message: rest.join('. ') } : {}),
        }
      : null
  const edit = (change: Partial<JobForm>) => {
    run.reset()
    setForm((f) => ({ ...f, ...change }))
  }
  const fault = (name: string) => sentence(rejected?.field(name) ?? '') || null
  return (
    <AskDialog
      open={open}
      title="Run a job"
      verb="Run job"
      keep="Cancel"
      wide
      busy={run.isPending}
      reason={wrongJob(current)}
      failure={failure}
      onClose={() => {
        run.reset()
        onClose()
      }}
      onConfirm={() => run.mutate()}
    >
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Name"
          mono
          value={current.name ?? ''}
          maxLength={60}
          autoComplete="off"
          spellCheck={false}
          error={fault('name')}
          onChange={(e) => edit({ name: e.target.value })}
        />
        <SelectField
          label="Image"
          value={current.image}
          error={fault('image')}
          onChange={(e) => edit({ image: e.target.value })}
        >
          <option value="">Choose…</option>
          {containers.map((i) => (
            <option key={i.id} value={i.name}>
              {i.name}
            </option>
          ))}
        </SelectField>
        <SelectField
          label="Shape of each member"
          className="sm:col-span-2"
          value={form.flavor}
          error={fault('flavor')}
          onChange={(e) => edit({ flavor: e.target.value })}
        >
          <option value="">Choose…</option>
          {flavors
            ?.filter((f) => f.gpu_mode !== 'vgpu')
            .map((f) => (
              <option key={f.id} value={f.name}>
                {f.name}: {gpuShort(f)}
                {f.price_per_hour_micros === undefined
                  ? ''
                  : `, ${formatHourly(f.price_per_hour_micros, f.currency)}`}
                {f.free_now > 0 ? `, ${f.free_now} free` : ''}
              </option>
            ))}
        </SelectField>
      </div>
      <div>
        <Segmented
          label="What it is made of"
          value={form.made}
          onChange={(made) => edit({ made })}
          options={[
            { value: 'gang', label: 'Gang', hint: 'Members that start together, or not at all' },
            { value: 'array', label: 'Array', hint: 'Tasks that know nothing of each other' },
          ]}
        />
      </div>
      {form.made === 'gang' ? (
        <>
          <div className="grid grid-cols-2 gap-4">
            <TextField
              label="Members"
              inputMode="numeric"
              value={form.members}
              error={fault('members')}
              onChange={(e) => edit({ members: e.target.value })}
            />
            <TextField
              label="At least"
              inputMode="numeric"
              placeholder="All of them"
              value={form.least}
              error={fault('members_min')}
              onChange={(e) => edit({ least: e.target.value })}
            />
          </div>
          {form.members !== '1' && (
            <label className="flex items-start gap-2">
              <input
                type="checkbox"
                className="mt-0.5"
                checked={form.across}
                onChange={(e) => edit({ across: e.target.checked })}
              />
              <span>
                Across nodes: members may lie on several nodes, and then can’t reach each other. Without it
                they lie on one, and find each other by name.
              </span>
            </label>
          )}
        </>
      ) : (
        <div className="grid grid-cols-2 gap-4">
          <TextField
            label="Tasks"
            inputMode="numeric"
            value={form.tasks}
            error={fault('array')}
            onChange={(e) => edit({ tasks: e.target.value })}
          />
          <TextField
            label="At once, at most"
            inputMode="numeric"
            placeholder="All of them"
            value={form.parallel}
            error={fault('parallel')}
            onChange={(e) => edit({ parallel: e.target.value })}
          />
        </div>
      )}
      <TextField
        label="Command"
        mono
        placeholder="The image’s own"
        value={form.command}
        spellCheck={false}
        autoComplete="off"
        hint={
          form.made === 'gang'
            ? 'Each member has RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.'
            : 'Each task has TENON_ARRAY_INDEX, from 0.'
        }
        error={fault('command')}
        onChange={(e) => edit({ command: e.target.value })}
      />
      <TextArea
        label="Environment"
        placeholder="NAME=value"
        rows={2}
        value={form.env}
        error={parseEnv(form.env).error ?? fault('env')}
        onChange={(e) => edit({ env: e.target.value })}
      />
      <div className="grid gap-4 sm:grid-cols-3">
        <SelectField
          label="Priority"
          value={form.priority}
          onChange={(e) =>
            edit({
              priority: e.target.value === 'low' ? 'low' : e.target.value === 'high' ? 'high' : 'normal',
            })
          }
        >
          <option value="low">Low</option>
          <option value="normal">Normal</option>
          <option value="high">High</option>
        </SelectField>
        <TextField
          label="Retries"
          inputMode="numeric"
          value={form.retries}
          error={fault('retries')}
          onChange={(e) => edit({ retries: e.target.value })}
        />
        <TextField
          label="End it after"
          inputMode="numeric"
          unit="min"
          placeholder="Never"
          value={form.minutes}
          error={fault('max_seconds')}
          onChange={(e) => edit({ minutes: e.target.value })}
        />
      </div>
      <CodeBlock label="Command line" text={toJobCLI(current, project)} />
    </AskDialog>
  )
}
