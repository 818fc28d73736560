import { useState } from 'react'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { signIn } from '~/api/session.ts'
import { Button } from '~/ui/Button.tsx'
import { TextField } from '~/ui/Field.tsx'
import { Notice } from '~/ui/State.tsx'

/** SignInForm asks for an address and a password; a failure keeps what was typed. */
export function SignInForm({ email: given, onDone }: { email?: string; onDone: () => Promise<void> | void }) {
  const [email, setEmail] = useState(given ?? '')
  const [password, setPassword] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const failure = error ? failureOf(error, 'sign in') : null

  const submit = async () => {
    if (busy) return
    setBusy(true)
    setError(null)
    try {
      await signIn(email.trim(), password)
      await onDone()
    } catch (e) {
      setError(e)
      setBusy(false)
    }
  }
  return (
    <form
      className="flex flex-col gap-4 text-fg"
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
        autoFocus={!given}
        required
        value={email}
        onChange={(e) => setEmail(e.target.value)}
      />
      <TextField
        label="Password"
        type="password"
        name="password"
        autoComplete="current-password"
        autoFocus={Boolean(given)}
        required
        value={password}
        onChange={(e) => setPassword(e.target.value)}
      />
      <Button type="submit" look="primary" busy={busy} className="w-full">
        Sign in
      </Button>
    </form>
  )
}
