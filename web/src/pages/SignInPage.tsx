import { useNavigate, useRouter, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { signIn } from '~/api/session.ts'
import { useTitle } from '~/lib/title.ts'
import { Button } from '~/ui/Button.tsx'
import { TextField } from '~/ui/Field.tsx'
import { Mark } from '~/ui/Mark.tsx'
import { Notice } from '~/ui/State.tsx'

export function SignInPage() {
  useTitle('Sign in')
  const { return: back } = useSearch({ from: '/signin' })
  const navigate = useNavigate()
  const router = useRouter()
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const failure = error ? failureOf(error, 'sign in') : null

  const submit = async () => {
    setBusy(true)
    setError(null)
    try {
      await signIn(email.trim(), password)
      queryClient.clear()
      if (back) router.history.push(back)
      else await navigate({ to: '/' })
    } catch (e) {
      setError(e)
      setBusy(false)
    }
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
        <form
          className="flex flex-col gap-4"
          onSubmit={(e) => {
            e.preventDefault()
            void submit()
          }}
        >
          {failure && (
            <Notice tone="red" requestId={failure.requestId}>
              {error instanceof ApiProblem && error.status === 401
                ? 'The e-mail address or the password is wrong.'
                : failure.message}
            </Notice>
          )}
          <TextField
            label="E-mail"
            type="email"
            name="email"
            autoComplete="username"
            autoFocus
            required
            value={email}
            onChange={(e) => setEmail(e.target.value)}
          />
          <TextField
            label="Password"
            type="password"
            name="password"
            autoComplete="current-password"
            required
            value={password}
            onChange={(e) => setPassword(e.target.value)}
          />
          <Button type="submit" look="primary" busy={busy} className="w-full">
            Sign in
          </Button>
        </form>
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
