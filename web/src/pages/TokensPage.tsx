import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { type Token, tokenCreate, tokenRevoke, tokensQuery } from '~/api/token.ts'
import { useNow } from '~/lib/clock.ts'
import { useTitle } from '~/lib/title.ts'
import { ConfirmEnd } from '~/pages/ConfirmEnd.tsx'
import { Button } from '~/ui/Button.tsx'
import { CodeBlock } from '~/ui/CopyButton.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { SelectField, TextField } from '~/ui/Field.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'
import { Empty, ErrorState, Notice, Stale } from '~/ui/State.tsx'
import { StatusPill } from '~/ui/StatusPill.tsx'
import { type Column, Table } from '~/ui/Table.tsx'
import { Ago } from '~/ui/Time.tsx'

function stateOf(t: Token, now: number): { tone: 'green' | 'grey' | 'amber'; word: string } {
  if (t.revoked_at) return { tone: 'grey', word: 'Revoked' }
  if (t.expires_at && Date.parse(t.expires_at) <= now) return { tone: 'grey', word: 'Expired' }
  if (t.expires_at && Date.parse(t.expires_at) - now < 7 * 86_400_000)
    return { tone: 'amber', word: 'Expires soon' }
  return { tone: 'green', word: 'Active' }
}

export function TokensPage() {
  useTitle('API tokens')
  const { data, error, refetch, isFetching, dataUpdatedAt } = useQuery(tokensQuery)
  const [creating, setCreating] = useState(false)
  const [revoking, setRevoking] = useState<Token | null>(null)
  const now = useNow(5)
  const columns: Column<Token>[] = [
    { id: 'name', header: 'Name', cell: (t) => <span className="font-medium">{t.name}</span> },
    {
      id: 'hint',
      header: 'Token',
      grow: true,
      from: 'md',
      cell: (t) => <code className="font-mono text-12 text-fg2">{t.hint}</code>,
    },
    {
      id: 'state',
      header: 'State',
      cell: (t) => {
        const s = stateOf(t, now)
        return <StatusPill tone={s.tone}>{s.word}</StatusPill>
      },
    },
    {
      id: 'used',
      header: 'Last used',
      align: 'right',
      from: 'sm',
      cell: (t) => (t.last_used_at ? <Ago at={t.last_used_at} /> : <span className="text-fg3">never</span>),
    },
    {
      id: 'expires',
      header: 'Expires',
      align: 'right',
      from: 'sm',
      cell: (t) => (t.expires_at ? <Ago at={t.expires_at} /> : 'never'),
    },
    { id: 'created', header: 'Created', align: 'right', from: 'lg', cell: (t) => <Ago at={t.created_at} /> },
    {
      id: 'actions',
      header: 'Actions',
      hideHeader: true,
      align: 'right',
      cell: (t) => (
        <Button
          small
          look="danger"
          reason={t.revoked_at ? 'It is revoked already' : null}
          onClick={() => setRevoking(t)}
          aria-label={`Revoke ${t.name}`}
        >
          Revoke…
        </Button>
      ),
    },
  ]
  return (
    <Page
      title="API tokens"
      lead="For scripts, the command line and the registry. A token acts as you, in this organisation."
      actions={
        <Button look="primary" icon="plus" onClick={() => setCreating(true)}>
          Create token
        </Button>
      }
    >
      <Stale since={error && data ? dataUpdatedAt : null} now={now}>
        <Panel flush>
          {error && !data ? (
            <ErrorState
              failure={failureOf(error, 'list the tokens')}
              onRetry={() => void refetch()}
              busy={isFetching}
            />
          ) : data?.length === 0 ? (
            <Empty
              icon="tokens"
              title="No tokens yet"
              action={<Button onClick={() => setCreating(true)}>Create the first one</Button>}
            >
              Scripts and the command line sign in with a token. Its secret is shown once, when it is made.
            </Empty>
          ) : (
            <Table label="API tokens" columns={columns} rows={data} rowKey={(t) => t.id} skeletonRows={3} />
          )}
        </Panel>
      </Stale>
      <CreateToken open={creating} onClose={() => setCreating(false)} />
      <RevokeToken token={revoking} onClose={() => setRevoking(null)} />
    </Page>
  )
}

function CreateToken({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [name, setName] = useState('')
  const [days, setDays] = useState('90')
  const create = useMutation({
    mutationFn: () => tokenCreate({ name, expires_in_days: Number(days) }),
    onSuccess: () => void queryClient.invalidateQueries({ queryKey: ['tokens'] }),
  })
  const problem = create.error instanceof ApiProblem ? create.error : null
  const rest = problem?.rest(['name', 'expires_in_days']) ?? []
  const close = () => {
    onClose()
    create.reset()
    setName('')
  }
  if (create.data)
    return (
      <Dialog
        open={open}
        onClose={close}
        wide
        title={`Token “${create.data.name}” is made`}
        actions={
          <Button look="primary" onClick={close}>
            I have kept it
          </Button>
        }
      >
        <p className="mb-3">
          This is the only time that its secret is shown: only a hash of it is kept. Put it where your script
          reads it.
        </p>
        <CodeBlock label="Token" text={create.data.secret} />
        <p className="mt-4 mb-1.5">For the command line:</p>
        <CodeBlock
          label="Environment"
          text={`export TENON_URL=${location.origin}\nexport TENON_TOKEN=${create.data.secret}`}
        />
      </Dialog>
    )
  return (
    <Dialog
      open={open}
      onClose={close}
      title="Create token"
      actions={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button look="primary" type="submit" form="create-token" busy={create.isPending}>
            Create token
          </Button>
        </>
      }
    >
      <form
        id="create-token"
        className="flex flex-col gap-4 text-fg"
        onSubmit={(e) => {
          e.preventDefault()
          create.mutate()
        }}
      >
        {rest.length > 0 && (
          <Notice tone="red" requestId={problem?.problem.request_id}>
            {rest.join('; ')}
          </Notice>
        )}
        <TextField
          label="Name"
          required
          autoComplete="off"
          value={name}
          onChange={(e) => setName(e.target.value)}
          error={problem?.field('name')}
          hint="What uses it, such as “ci” or “laptop”. Lower-case letters, digits and hyphens."
        />
        <SelectField
          label="Expires"
          value={days}
          onChange={(e) => setDays(e.target.value)}
          error={problem?.field('expires_in_days')}
        >
          <option value="7">In 7 days</option>
          <option value="30">In 30 days</option>
          <option value="90">In 90 days</option>
          <option value="366">In 366 days</option>
        </SelectField>
      </form>
    </Dialog>
  )
}

function RevokeToken({ token, onClose }: { token: Token | null; onClose: () => void }) {
  return (
    <ConfirmEnd
      thing={token}
      verb="Revoke"
      noun="token"
      done="revoked"
      queryKey="tokens"
      end={tokenRevoke}
      onClose={onClose}
    >
      Whatever uses it is refused from now on. This can’t be undone; a new token can be made at any time.
    </ConfirmEnd>
  )
}
