import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { newKey } from '~/api/client.ts'
import { poolsQuery, pricesQuery } from '~/api/fleet.ts'
import { dryRunQuery, instanceCreate, instancesQuery } from '~/api/instance.ts'
import { meQuery } from '~/api/me.ts'
import { type Flavor, flavorsQuery, imagesQuery } from '~/api/offer.ts'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { diskPrice } from '~/lib/board.ts'
import {
  type CreateForm,
  dataKept,
  emptyForm,
  nextName,
  parseEnv,
  parseKeys,
  rebootDefault,
  toRequest,
  vmRefusal,
} from '~/lib/createform.ts'
import { useSettled } from '~/lib/debounce.ts'
import { recall, remember } from '~/lib/prefs.ts'
import { useTitle } from '~/lib/title.ts'
import { TextArea, TextField } from '~/ui/Field.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'
import { ErrorState } from '~/ui/State.tsx'
import { keysPref, SSHKeysField, UserDataField } from './AccessFields.tsx'
import { OnNodeLossField, OnNodeRebootField, OnStopField, PoolField } from './AfterFields.tsx'
import { CreateSummary } from './CreateSummary.tsx'
import { FlavorPicker } from './FlavorPicker.tsx'
import { ImagePicker } from './ImagePicker.tsx'
import { KindPicker } from './KindPicker.tsx'

const shownFields = [
  'name',
  'image',
  'flavor',
  'command',
  'env',
  'ssh_keys',
  'user_data',
  'on_stop',
  'on_node_loss',
  'on_node_reboot',
  'pool',
] as const

export function InstanceCreatePage() {
  useTitle('Create instance')
  const { project } = useParams({ from: '/app/projects/$project/create' })
  const given = useSearch({ from: '/app/projects/$project/create' })
  const navigate = useNavigate()
  const flavors = useQuery(flavorsQuery)
  const images = useQuery(imagesQuery)
  const { data: instances } = useQuery(instancesQuery(project))
  const { data: prices } = useQuery(pricesQuery)
  const pools = usePools(flavors.data)
  const [form, setForm] = useState<CreateForm>(() => ({
    ...emptyForm,
    image: given.image ?? '',
    flavor: given.flavor ?? '',
    kind: given.kind ?? 'container',
    pool: given.pool ?? '',
    sshKeys: recall(keysPref) ?? '',
  }))
  const [touched, setTouched] = useState(false)
  const key = useRef(newKey())
  const formElement = useRef<HTMLFormElement>(null)

  const kind = given.kind
    ? form.kind
    : (images.data?.find((i) => i.name === given.image && i.name === form.image)?.kind ?? form.kind)
  const fitting = images.data?.filter((i) => i.kind === kind)
  const image = form.image || (fitting?.length === 1 ? (fitting[0]?.name ?? '') : '')
  const name =
    touched || !instances
      ? form.name
      : nextName(
          instances.map((i) => i.name),
          kind === 'container' ? 'instance' : kind,
        )
  const pool = pools.find((p) => p.name === form.pool) ?? pools[0]
  const current: CreateForm = { ...form, kind, name, image, pool: pool && !pool.usual ? pool.name : '' }
  const env = parseEnv(form.env)
  const keys = parseKeys(kind === 'vm' ? form.sshKeys : '')
  const flavor = flavors.data?.find((f) => f.name === form.flavor)
  const refusal = (f: Flavor) => (kind === 'vm' ? vmRefusal(f) : null)

  const asked = useSettled(
    current.flavor && current.image && !env.error && !keys.error ? toRequest(current) : null,
    300,
  )
  const dry = useQuery(dryRunQuery(project, asked && { ...asked, name: asked.name || undefined }))

  const create = useMutation({
    mutationFn: () => instanceCreate(project, toRequest(current), key.current),
    // the same key makes a repeated request happen once
    retry: (count, e) => count < 2 && e instanceof ApiProblem && e.status === 0,
    retryDelay: 500,
    onSuccess: async (i) => {
      if (current.kind === 'vm' && keys.keys.length) remember(keysPref, keys.keys.join('\n'))
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
          ? 'Choose a shape'
          : flavor && refusal(flavor)
            ? 'Choose a shape that can be a VM'
            : env.error
              ? 'Mend the environment'
              : keys.error
                ? 'Mend the SSH keys'
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
      lead="A container, a notebook or a virtual machine, on a GPU, a slice of one, or none."
    >
      <form
        ref={formElement}
        onSubmit={submit}
        noValidate
        className="flex flex-col gap-6 lg:grid lg:grid-cols-[minmax(0,1fr)_340px] lg:items-start"
      >
        <div className="flex min-w-0 flex-col gap-8">
          <Part title="Kind" note="What it runs as">
            <KindPicker
              images={images.data}
              value={kind}
              onChange={(k) =>
                edit({
                  kind: k,
                  image: '',
                  flavor: k === 'vm' && flavor && vmRefusal(flavor) ? '' : form.flavor,
                })
              }
            />
          </Part>
          <Part title="Image" note="What it runs">
            <ImagePicker
              images={fitting}
              value={image}
              onChange={(v) => edit({ image: v, kind })}
              error={fieldError('image')}
              project={project}
              kind={kind}
            />
          </Part>
          <Part title="Shape" note="What it holds while it runs, and what you pay for">
            <FlavorPicker
              flavors={flavors.data}
              value={form.flavor}
              onChange={(v) => edit({ flavor: v })}
              error={fieldError('flavor')}
              refusal={refusal}
              simulated={pool?.simulated ?? false}
            />
          </Part>
          {pools.length > 1 && (
            <Part title="Pool" note="Where it may run">
              <PoolField pools={pools} value={pool?.name ?? ''} onChange={(v) => edit({ pool: v })} />
            </Part>
          )}
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
          {kind === 'vm' ? (
            <Part title="Access" note="How you get in">
              <div className="flex max-w-2xl flex-col gap-4">
                <SSHKeysField
                  value={form.sshKeys}
                  onChange={(v) => edit({ sshKeys: v })}
                  error={keys.error ?? fieldError('ssh_keys')}
                />
                <UserDataField
                  value={form.userData}
                  onChange={(v) => edit({ userData: v })}
                  error={fieldError('user_data')}
                />
              </div>
            </Part>
          ) : (
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
          )}
          {kind === 'vm' && (
            <Part title="When it is stopped">
              <OnStopField
                value={form.onStop}
                onChange={(v) => edit({ onStop: v })}
                price={dry.data?.price_per_hour_micros}
                currency={flavor?.currency}
                gpus={flavor?.gpu_count ?? 0}
                disk={diskPrice(prices, flavor?.disk_mib)}
              />
              <FieldNote error={fieldError('on_stop')} />
            </Part>
          )}
          <Part title="If its node is lost" note="When the machine that runs it is not heard of any more">
            <OnNodeLossField value={form.onNodeLoss} onChange={(v) => edit({ onNodeLoss: v })} kind={kind} />
            <FieldNote error={fieldError('on_node_loss')} />
          </Part>
          <Part title="When its node was booted again" note="After an update or a loss of power">
            <OnNodeRebootField
              value={form.onNodeReboot ?? rebootDefault(kind)}
              onChange={(v) => edit({ onNodeReboot: v })}
              kind={kind}
            />
            <FieldNote error={fieldError('on_node_reboot')} />
          </Part>
        </div>
        <CreateSummary
          form={current}
          project={project}
          flavor={flavor}
          disk={dataKept(kind) ? diskPrice(prices, flavor?.disk_mib) : undefined}
          simulated={pool?.simulated ?? false}
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

function FieldNote({ error }: { error: string | null }) {
  if (!error) return null
  return (
    <p role="alert" className="mt-1 text-12 text-red">
      {error}
    </p>
  )
}

type Pool = { name: string; simulated: boolean; usual: boolean }

/** usePools lists where work may go: operators see every pool, others the simulated one when it has room. */
function usePools(flavors: readonly Flavor[] | undefined): Pool[] {
  const { data: me } = useSuspenseQuery(meQuery)
  const { data } = useQuery({ ...poolsQuery, enabled: me.user.operator })
  const usual = { name: 'default', simulated: false, usual: true }
  if (data)
    return data
      .map((p) => ({ ...p, usual: p.name === 'default' }))
      .sort((a, b) => Number(b.usual) - Number(a.usual))
  return flavors?.some((f) => f.free_simulated_now > 0)
    ? [usual, { name: 'simulated', simulated: true, usual: false }]
    : [usual]
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
