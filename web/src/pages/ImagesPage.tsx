import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { meQuery } from '~/api/me.ts'
import { type Image, imageCreate, imageDelete, imagesQuery } from '~/api/offer.ts'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { useNow } from '~/lib/clock.ts'
import { formatBytes } from '~/lib/format.ts'
import { useTitle } from '~/lib/title.ts'
import { ConfirmEnd } from '~/pages/ConfirmEnd.tsx'
import { Button, buttonClass, IconButton } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { TextField } from '~/ui/Field.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'
import { Menu } from '~/ui/Menu.tsx'
import { Empty, ErrorState, Notice, Stale } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Ago } from '~/ui/Time.tsx'
import { toast } from '~/ui/Toast.tsx'

export function ImagesPage() {
  useTitle('Images')
  const { project } = useParams({ from: '/app/projects/$project/images' })
  const { data: me } = useSuspenseQuery(meQuery)
  const { data, error, refetch, isFetching, dataUpdatedAt } = useQuery(imagesQuery)
  const [adding, setAdding] = useState(false)
  const [removing, setRemoving] = useState<Image | null>(null)
  const now = useNow(5)
  const mayAdd = me.actions.includes('image.create')
  const mayRemove = me.actions.includes('image.delete')

  const columns: Column<Image>[] = [
    { id: 'name', header: 'Name', cell: (i) => <span className="font-medium">{i.name}</span> },
    {
      id: 'from',
      header: 'From',
      cell: (i) =>
        i.offered ? (
          <Tag title="Offered by the operator to everyone">offered</Tag>
        ) : (
          <Tag title="Your organisation’s own">own</Tag>
        ),
      from: 'sm',
    },
    {
      id: 'ref',
      header: 'Reference',
      grow: true,
      cell: (i) => (
        <span className="font-mono text-12 text-fg2" title={`${i.ref}\n${i.digest}`}>
          {i.ref}
        </span>
      ),
      from: 'md',
    },
    {
      id: 'note',
      header: 'Description',
      cell: (i) => <span className="text-fg2">{i.description || '–'}</span>,
      from: 'xl',
    },
    { id: 'size', header: 'Size', align: 'right', cell: (i) => formatBytes(i.size_bytes) },
    { id: 'added', header: 'Added', align: 'right', cell: (i) => <Ago at={i.created_at} />, from: 'sm' },
    {
      id: 'use',
      header: 'Actions',
      hideHeader: true,
      align: 'right',
      cell: (i) => (
        <span className="inline-flex items-center gap-1">
          {i.kind === 'container' && (
            <Link
              to="/projects/$project/create"
              params={{ project }}
              search={{ image: i.name }}
              className={buttonClass('quiet', true)}
            >
              Use
            </Link>
          )}
          <Menu
            label={`Actions for ${i.name}`}
            trigger={<IconButton label={`More for ${i.name}`} icon="more" small />}
            items={[
              {
                label: 'Remove…',
                danger: true,
                reason: !mayRemove
                  ? 'Your role may not'
                  : i.offered && !me.user.operator
                    ? 'The operator offers it'
                    : null,
                onSelect: () => setRemoving(i),
              },
            ]}
          />
        </span>
      ),
    },
  ]

  return (
    <Page
      title="Images"
      lead="What instances are made from. Each is fixed to a digest when it is added, so what runs never changes by itself."
      actions={
        <Button
          look="primary"
          icon="plus"
          reason={mayAdd ? null : 'Your role may not add images'}
          onClick={() => setAdding(true)}
        >
          Add image
        </Button>
      }
    >
      <Stale since={error && data ? dataUpdatedAt : null} now={now}>
        <Panel flush>
          {error && !data ? (
            <ErrorState
              failure={failureOf(error, 'list the images')}
              onRetry={() => void refetch()}
              busy={isFetching}
            />
          ) : data?.length === 0 ? (
            <Empty icon="images" title="No images yet">
              None is offered and your organisation has added none. Push one to the registry of this cloud, or
              name one in another registry, and add it here.{' '}
              <Link to="/docs/$page" params={{ page: 'images' }} className="link">
                How that is done
              </Link>
            </Empty>
          ) : (
            <Table label="Images" columns={columns} rows={data} rowKey={(i) => i.id} />
          )}
        </Panel>
      </Stale>
      <AddImage open={adding} onClose={() => setAdding(false)} />
      <RemoveImage image={removing} onClose={() => setRemoving(null)} />
    </Page>
  )
}

function AddImage({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [name, setName] = useState('')
  const [ref, setRef] = useState('')
  const [description, setDescription] = useState('')
  const add = useMutation({
    mutationFn: () => imageCreate({ name, ref, kind: 'container', description: description || undefined }),
    onSuccess: async (i) => {
      await queryClient.invalidateQueries({ queryKey: ['images'] })
      toast('green', `${i.name} is ready to use`)
      setName('')
      setRef('')
      setDescription('')
      onClose()
    },
  })
  const problem = add.error instanceof ApiProblem ? add.error : null
  const rest = problem?.rest(['name', 'ref', 'description']) ?? []
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Add image"
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" form="add-image" busy={add.isPending}>
            Add image
          </Button>
        </>
      }
    >
      <form
        id="add-image"
        className="flex flex-col gap-4 text-fg"
        onSubmit={(e) => {
          e.preventDefault()
          add.mutate()
        }}
      >
        {rest.length > 0 && (
          <Notice tone="red" requestId={problem?.problem.request_id}>
            {rest.map((r) => (
              <p key={r}>{r}</p>
            ))}
            {problem?.problem.hint && <p className="text-fg2">{problem.problem.hint}</p>}
          </Notice>
        )}
        <TextField
          label="Name"
          required
          value={name}
          onChange={(e) => setName(e.target.value)}
          error={problem?.field('name')}
          hint="Lower-case letters, digits and hyphens"
        />
        <TextField
          label="Reference"
          required
          mono
          value={ref}
          onChange={(e) => setRef(e.target.value)}
          error={problem?.field('ref')}
          placeholder="registry.example.com/team/train:v2"
          hint="Repository with a tag or a digest. Without a host: in this cloud’s own registry."
        />
        <TextField
          label="Description"
          value={description}
          onChange={(e) => setDescription(e.target.value)}
          error={problem?.field('description')}
        />
      </form>
    </Dialog>
  )
}

function RemoveImage({ image, onClose }: { image: Image | null; onClose: () => void }) {
  return (
    <ConfirmEnd
      thing={image}
      verb="Remove"
      noun="image"
      done="removed"
      queryKey="images"
      end={imageDelete}
      onClose={onClose}
    >
      New instances can’t be made from it any more; the layers in the registry stay where they are. While an
      instance that was made from it exists, removal is refused.
    </ConfirmEnd>
  )
}
