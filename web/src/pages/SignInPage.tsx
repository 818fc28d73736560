import { useNavigate, useRouter, useSearch } from '@tanstack/react-router'
import { queryClient } from '~/api/query.ts'
import { useTitle } from '~/lib/title.ts'
import { Mark } from '~/ui/Mark.tsx'
import { SignInForm } from './SignInForm.tsx'

export function SignInPage() {
  useTitle('Sign in')
  const { return: back } = useSearch({ from: '/signin' })
  const navigate = useNavigate()
  const router = useRouter()
  const done = async () => {
    queryClient.clear()
    if (back) router.history.push(back)
    else await navigate({ to: '/' })
  }

  return (
    <main className="flex min-h-dvh flex-col items-center justify-center px-4 py-10">
      <div className="w-full max-w-[340px]">
        <div className="mb-6 flex items-center gap-2.5">
          <Mark size={26} />
          <span className="text-20 font-semibold tracking-tight">Tenon</span>
        </div>
        <h1 className="mb-1 text-16 font-semibold">Sign in</h1>
        <p className="mb-5 text-13 text-fg2">To the GPU cloud on this host.</p>
        <SignInForm onDone={done} />
        <p className="mt-6 border-t border-line pt-4 text-12 text-fg3">
          A new installation prints the administrator’s address and password once, where it was started.{' '}
          <a href="/docs" className="link">
            Manual
          </a>
        </p>
      </div>
    </main>
  )
}
