import { useMutation, useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Credential, credentialCreate, credentialDelete, credentialsQuery } from '~/api/credential.ts'
import { meQuery } from '~/api/me.ts'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { sentence } from '~/lib/format.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { TextField } from '~/ui/Field.tsx'
import { Panel } from '~/ui/Layout.tsx'
import { Empty, ErrorState, Notice } from '~/ui/State.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Ago } from '~/ui/Time.tsx'
import { toast } from '~/ui/Toast.tsx'
import { ConfirmEnd } from './ConfirmEnd.tsx'

/** RegistryCredentials are the sign-ins with which this project's images are pulled from other registries. */
export function RegistryCredentials({ project }: { project: string }) {
  const { data: me } = useSuspenseQuery(meQuery)
  const { data, error, refetch, isFetching } = useQuery({ ...credentialsQuery(project), retry: false })
  const [adding, setAdding] = useState(false)
  const [removing, setRemoving] = useState<(Credential & { name: string }) | null>(null)
  const mayAdd = me.actions.includes('registry_credential.create')
  const mayRemove = me.actions.includes('registry_credential.delete')
  const columns: Column<Credential>[] = [
    {
      id: 'host',
      header: 'Registry',
      grow: true,
      cell: (c) => <span className="font-mono text-12">{c.host}</span>,
    },
    { id: 'user', header: 'User', cell: (c) => c.username || '–' },
    { id: 'added', header: 'Added', align: 'right', from: 'sm', cell: (c) => <Ago at={c.created_at} /> },
    {
      id: 'remove',
      header: 'Actions',
      hideHeader: true,
      align: 'right',
      cell: (c) => (
        <Button
          small
          look="quiet"
          reason={mayRemove ? null : 'Your role may not'}
          onClick={() => setRemoving({ ...c, name: c.host })}
        >
          Remove…
        </Button>
      ),
    },
  ]
  return (
    <Panel
      flush
      title="Other registries"
      aside={
        <Button
          small
          icon="plus"
          reason={mayAdd ? null : 'Your role may not add sign-ins'}
          onClick={() => setAdding(true)}
        >
          Add sign-in
        </Button>
      }
    >
      {error && !data ? (
        <ErrorState
          failure={failureOf(error, 'list the sign-ins')}
          onRetry={() => void refetch()}
          busy={isFetching}
        />
      ) : data?.length === 0 ? (
        <Empty title="No sign-ins yet" icon="tokens">
          Images of a private registry need one. It is kept sealed, used only to pull this project’s images,
          and its password is never shown again.
        </Empty>
      ) : (
        <Table
          label="Registry sign-ins"
          columns={columns}
          rows={data}
          rowKey={(c) => c.id}
          skeletonRows={2}
        />
      )}
      <AddCredential project={project} open={adding} onClose={() => setAdding(false)} />
      <ConfirmEnd
        thing={removing}
        verb="Remove"
        noun="sign-in"
        done="removed"
        queryKey="registry-credentials"
        end={(id) => credentialDelete(project, id)}
        onClose={() => setRemoving(null)}
      >
        Images of that registry can’t be pulled any more with it. What runs goes on running; a start on a node
        that does not have the image fails.
      </ConfirmEnd>
    </Panel>
  )
}

function AddCredential({ project, open, onClose }: { project: string; open: boolean; onClose: () => void }) {
  const [host, setHost] = useState('')
  const [username, setUsername] = useState('')
  const [password, setPassword] = useState('')
  const add = useMutation({
    mutationFn: () => credentialCreate(project, { host: host.trim(), username: username.trim(), password }),
    onSuccess: async (c) => {
      await queryClient.invalidateQueries({ queryKey: ['registry-credentials', project] })
      if (c.warning) toast('amber', `The sign-in to ${c.host} is kept, but not checked`, sentence(c.warning))
      else toast('green', `The sign-in to ${c.host} is kept`)
      close()
    },
  })
  const close = () => {
    add.reset()
    setHost('')
    setUsername('')
    setPassword('')
    onClose()
  }
  const problem = add.error instanceof ApiProblem ? add.error : null
  const rest = problem?.rest(['host', 'username', 'password']) ?? []
  return (
    <Dialog
      open={open}
      onClose={close}
      title="Add sign-in"
      actions={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button look="primary" type="submit" form="add-credential" busy={add.isPending}>
            Add sign-in
          </Button>
        </>
      }
    >
      <form
        id="add-credential"
        autoComplete="off"
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
          </Notice>
        )}
        <TextField
          label="Registry"
          required
          mono
          placeholder="ghcr.io"
          autoComplete="off"
          spellCheck={false}
          value={host}
          error={problem?.field('host')}
          hint="Its host, with the port if it has one. One sign-in a host: a new one replaces the old."
          onChange={(e) => setHost(e.target.value)}
        />
        <TextField
          label="User"
          autoComplete="off"
          spellCheck={false}
          value={username}
          error={problem?.field('username')}
          onChange={(e) => setUsername(e.target.value)}
        />
        <TextField
          label="Password or token"
          type="password"
          required
          autoComplete="new-password"
          value={password}
          error={problem?.field('password')}
          hint="Kept sealed. A token that may only pull is enough."
          onChange={(e) => setPassword(e.target.value)}
        />
      </form>
    </Dialog>
  )
}
