import { useMutation } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { AskDialog } from '~/ui/AskDialog.tsx'
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
    <AskDialog
      open={thing !== null}
      onClose={close}
      onConfirm={() => thing && ending.mutate(thing)}
      title={`${verb} “${thing?.name ?? ''}”?`}
      says={props.children}
      verb={`${verb} ${props.noun}`}
      keep="Keep it"
      danger
      busy={ending.isPending}
      failure={failure}
    />
  )
}
