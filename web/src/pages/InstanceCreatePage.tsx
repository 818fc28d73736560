import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { newKey } from '~/api/client.ts'
import { dryRunQuery, instanceCreate, instancesQuery } from '~/api/instance.ts'
import { flavorsQuery, imagesQuery } from '~/api/offer.ts'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { type CreateForm, nextName, parseEnv, toRequest } from '~/lib/createform.ts'
import { useSettled } from '~/lib/debounce.ts'
import { useTitle } from '~/lib/title.ts'
import { TextArea, TextField } from '~/ui/Field.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'
import { ErrorState } from '~/ui/State.tsx'
import { CreateSummary } from './CreateSummary.tsx'
import { FlavorPicker } from './FlavorPicker.tsx'
import { ImagePicker } from './ImagePicker.tsx'

const shownFields = ['name', 'image', 'flavor', 'command', 'env'] as const

export function InstanceCreatePage() {
  useTitle('Create instance')
  const { project } = useParams({ from: '/app/projects/$project/create' })
  const given = useSearch({ from: '/app/projects/$project/create' })
  const navigate = useNavigate()
  const flavors = useQuery(flavorsQuery)
  const images = useQuery(imagesQuery)
  const { data: instances } = useQuery(instancesQuery(project))
  const [form, setForm] = useState<CreateForm>({
    name: '',
    image: given.image ?? '',
    flavor: given.flavor ?? '',
    command: '',
    env: '',
  })
  const [touched, setTouched] = useState(false)
  const key = useRef(newKey())
  const formElement = useRef<HTMLFormElement>(null)

  const containers = images.data?.filter((i) => i.kind === 'container')
  const image = form.image || (containers?.length === 1 ? (containers[0]?.name ?? '') : '')
  const name = touched || !instances ? form.name : nextName(instances.map((i) => i.name))
  const current: CreateForm = { ...form, name, image }
  const env = parseEnv(form.env)

  const asked = useSettled(current.flavor && current.image && !env.error ? toRequest(current) : null, 300)
  const dry = useQuery(dryRunQuery(project, asked && { ...asked, name: asked.name || undefined }))

  const create = useMutation({
    mutationFn: () => instanceCreate(project, toRequest(current), key.current),
    // the same key makes a repeated request happen once
    retry: (count, e) => count < 2 && e instanceof ApiProblem && e.status === 0,
    retryDelay: 500,
    onSuccess: async (i) => {
      await queryClient.invalidateQueries({ queryKey: ['instances', project] })
      await navigate({ to: '/projects/$project/instances/$instance', params: { project, instance: i.name } })
    },
    onSettled: () => {
      key.current = newKey() // another try is another request
    },
  })

  // an error that a dry run gave for what is asked now, and what the last create answered
  const refused = dry.error instanceof ApiProblem && form.flavor ? dry.error : null
  const rejected = create.error instanceof ApiProblem ? create.error : null
  const fieldError = (field: (typeof shownFields)[number]) =>
    rejected?.field(field) ?? (asked?.[field] !== undefined ? (refused?.field(field) ?? null) : null)
  const taken =
    !create.isPending && instances?.some((i) => i.name === current.name)
      ? 'An instance of this project has that name already'
      : null
  const missing = !current.name
    ? 'Give it a name'
    : taken
      ? 'Choose another name'
      : !current.image
        ? 'Choose an image'
        : !current.flavor
          ? 'Choose a GPU shape'
          : env.error
            ? 'Mend the environment'
            : null
  const edit = (change: Partial<CreateForm>) => {
    create.reset()
    setForm((f) => ({ ...f, ...change }))
  }
  const submit = (e?: FormEvent) => {
    e?.preventDefault()
    if (!missing && !create.isPending && !(refused && refused.status > 0)) create.mutate()
  }

  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if ((e.metaKey || e.ctrlKey) && e.key === 'Enter') formElement.current?.requestSubmit()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])

  const broken = flavors.error ?? images.error
  if (broken && (!flavors.data || !images.data))
    return (
      <Page title="Create instance">
        <Panel>
          <ErrorState
            failure={failureOf(broken, 'read what is on offer')}
            onRetry={() => {
              void flavors.refetch()
              void images.refetch()
            }}
          />
        </Panel>
      </Page>
    )
  return (
    <Page
      title="Create instance"
      lead="A container that runs until it is stopped, on a GPU, a slice of one, or none."
    >
      <form
        ref={formElement}
        onSubmit={submit}
        noValidate
        className="flex flex-col gap-6 lg:grid lg:grid-cols-[minmax(0,1fr)_340px] lg:items-start"
      >
        <div className="flex min-w-0 flex-col gap-8">
          <Part title="Image" note="What it runs">
            <ImagePicker
              images={containers}
              value={image}
              onChange={(v) => edit({ image: v })}
              error={fieldError('image')}
              project={project}
            />
          </Part>
          <Part title="GPU" note="What it holds while it runs, and what you pay for">
            <FlavorPicker
              flavors={flavors.data}
              value={form.flavor}
              onChange={(v) => edit({ flavor: v })}
              error={fieldError('flavor')}
            />
          </Part>
          <Part title="Name">
            <TextField
              label="Name"
              hideLabel
              className="max-w-sm"
              mono
              value={name}
              maxLength={63}
              autoComplete="off"
              spellCheck={false}
              hint="Also its host name. Lower-case letters, digits and hyphens."
              error={name ? (taken ?? fieldError('name')) : null}
              onChange={(e) => {
                setTouched(true)
                edit({ name: e.target.value })
              }}
            />
          </Part>
          <Part title="Command and environment" note="Both may stay empty">
            <div className="flex max-w-2xl flex-col gap-4">
              <TextField
                label="Command"
                mono
                placeholder="The image’s own"
                value={form.command}
                spellCheck={false}
                autoComplete="off"
                hint="Replaces the image’s entry point and command. Quotes keep words together."
                error={fieldError('command')}
                onChange={(e) => edit({ command: e.target.value })}
              />
              <TextArea
                label="Environment"
                placeholder={'NAME=value\nOTHER=value'}
                value={form.env}
                hint="One NAME=value a line."
                error={env.error ?? fieldError('env')}
                onChange={(e) => edit({ env: e.target.value })}
              />
            </div>
          </Part>
        </div>
        <CreateSummary
          form={current}
          project={project}
          flavor={flavors.data?.find((f) => f.name === form.flavor)}
          dry={form.flavor ? dry.data : undefined}
          refused={refused}
          fresh={!dry.isPlaceholderData}
          missing={missing}
          failure={create.error && rejected?.status !== 401 ? failureOf(create.error, 'create it') : null}
          failureLines={rejected && create.error ? rejected.rest(shownFields) : []}
          busy={create.isPending}
        />
      </form>
    </Page>
  )
}

function Part({ title, note, children }: { title: string; note?: string; children: React.ReactNode }) {
  return (
    <fieldset className="min-w-0">
      <legend className="mb-2.5 flex items-baseline gap-2.5">
        <span className="text-14 font-semibold">{title}</span>
        {note && <span className="text-12 text-fg3">{note}</span>}
      </legend>
      {children}
    </fieldset>
  )
}
