import { useMutation } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { Notice } from '~/ui/State.tsx'
import { toast } from '~/ui/Toast.tsx'

/** ConfirmEnd asks before a listed thing is ended for good; it is open while it has one. */
export function ConfirmEnd<T extends { id: string; name: string }>(props: {
  thing: T | null
  verb: string // Remove
  noun: string // image
  done: string // removed
  queryKey: string
  end: (id: string) => Promise<unknown>
  onClose: () => void
  children: ReactNode // what is lost and what is kept
}) {
  const { thing, verb, onClose } = props
  const ending = useMutation({
    mutationFn: (t: T) => props.end(t.id),
    onSuccess: (_, t) => {
      toast('green', `${t.name} is ${props.done}`)
      void queryClient.invalidateQueries({ queryKey: [props.queryKey] })
      onClose()
    },
  })
  const failure = ending.error ? failureOf(ending.error, `${verb.toLowerCase()} it`) : null
  const close = () => {
    ending.reset() // a failure is of the thing that it was asked of
    onClose()
  }
  return (
    <Dialog
      open={thing !== null}
      onClose={close}
      title={`${verb} “${thing?.name ?? ''}”?`}
      actions={
        <>
          <Button onClick={close}>Keep it</Button>
          <Button look="danger" busy={ending.isPending} onClick={() => thing && ending.mutate(thing)}>
            {`${verb} ${props.noun}`}
          </Button>
        </>
      }
    >
      {failure && (
        <div className="mb-3">
          <Notice tone="red" requestId={failure.requestId}>
            {failure.message}
          </Notice>
        </div>
      )}
      <p>{props.children}</p>
    </Dialog>
  )
}
