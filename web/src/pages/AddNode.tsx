import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { joinTokenCreate } from '~/api/fleet.ts'
import { failureOf } from '~/api/problem.ts'
import { Button } from '~/ui/Button.tsx'
import { CodeBlock } from '~/ui/CopyButton.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { TextField } from '~/ui/Field.tsx'
import { Notice } from '~/ui/State.tsx'
import { Ago } from '~/ui/Time.tsx'

/** AddNode makes the token with which one machine may join. */
export function AddNode({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [pool, setPool] = useState('default')
  const make = useMutation({ mutationFn: () => joinTokenCreate({ pool, expires_in_minutes: 60 }) })
  const failure = make.error ? failureOf(make.error, 'make a join token') : null
  const close = () => {
    make.reset()
    onClose()
  }
  return (
    <Dialog
      open={open}
      onClose={close}
      title="Add a node"
      wide
      actions={
        make.data ? (
          <Button look="primary" onClick={close}>
            Done
          </Button>
        ) : (
          <>
            <Button onClick={close}>Cancel</Button>
            <Button look="primary" type="submit" form="add-node" busy={make.isPending}>
              Make a join token
            </Button>
          </>
        )
      }
    >
      {make.data ? (
        <>
          <p className="mb-3">
            It lets one machine join pool {make.data.pool}, once, and ends <Ago at={make.data.expires_at} />.
            It is shown this once.
          </p>
          <CodeBlock label="Join token" text={make.data.join_token} />
          <p className="mt-3">
            Give it to the agent on that machine:{' '}
            <Link to="/docs/$page" params={{ page: 'nodes' }} className="link" onClick={close}>
              how a node joins
            </Link>
            .
          </p>
        </>
      ) : (
        <form
          id="add-node"
          className="flex flex-col gap-4 text-fg"
          onSubmit={(e) => {
            e.preventDefault()
            make.mutate()
          }}
        >
          {failure && (
            <Notice tone="red" requestId={failure.requestId}>
              {failure.message}
            </Notice>
          )}
          <p className="text-fg2">
            A machine proves itself with a one-use token, and gets a certificate of its own for it.
          </p>
          <TextField
            label="Pool"
            required
            className="max-w-xs"
            value={pool}
            onChange={(e) => setPool(e.target.value)}
            hint="Work is steered to nodes by their pool."
          />
        </form>
      )}
    </Dialog>
  )
}
