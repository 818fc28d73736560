import { useQueryClient, useSuspenseQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { meQuery } from '~/api/me.ts'
import { session } from '~/api/session.ts'
import { Button } from '~/ui/Button.tsx'
import { Dialog } from '~/ui/Dialog.tsx'
import { Notice } from '~/ui/State.tsx'
import { SignInForm } from './SignInForm.tsx'

/** SessionEnded asks for the password over the page, so that what was typed there is kept. */
export function SessionEnded() {
  const ended = session.use() === 'ended'
  const cache = useQueryClient()
  const { data: me } = useSuspenseQuery(meQuery)
  const [later, setLater] = useState(false)
  if (!ended) {
    if (later) setLater(false)
    return null
  }
  const done = async () => {
    const now = await cache.fetchQuery({ ...meQuery, staleTime: 0 })
    if (now.user.id !== me.user.id)
      location.assign('/') // someone else: nothing of the old page may stay
    else await cache.invalidateQueries()
  }
  return (
    <>
      <div className="px-4 pt-4 md:px-6">
        <Notice
          tone="amber"
          action={
            <Button small onClick={() => setLater(false)}>
              Sign in…
            </Button>
          }
        >
          Your session has ended. Nothing is refreshed until you sign in.
        </Notice>
      </div>
      <Dialog open={!later} onClose={() => setLater(true)} title="Your session has ended">
        <p className="mb-4">Sign in to go on. What you typed on the page is kept.</p>
        <SignInForm email={me.user.email} onDone={done} />
      </Dialog>
    </>
  )
}
