import { type ErrorComponentProps, Link, useRouter } from '@tanstack/react-router'
import { failureOf } from '~/api/problem.ts'
import { useTitle } from '~/lib/title.ts'
import { buttonClass } from '~/ui/Button.tsx'
import { Empty, ErrorState } from '~/ui/State.tsx'

export function NotFoundPage() {
  useTitle('Not found')
  return (
    <div className="mx-auto max-w-xl pt-[12vh]">
      <h1 className="sr-only">Not found</h1>
      <Empty
        icon="search"
        title="There is no such page"
        action={
          <Link to="/" className={buttonClass('secondary')}>
            Go to your instances
          </Link>
        }
      >
        The address may be mistyped, or what was here is gone.
      </Empty>
    </div>
  )
}

export function RouteErrorPage({ error, reset }: ErrorComponentProps) {
  useTitle('Error')
  const router = useRouter()
  const retry = () => {
    reset()
    void router.invalidate()
  }
  return (
    <main className="mx-auto max-w-2xl pt-[12vh]">
      <ErrorState failure={failureOf(error, 'open this page')} onRetry={retry} />
    </main>
  )
}
