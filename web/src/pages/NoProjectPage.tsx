import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { projectCreate } from '~/api/me.ts'
import { ApiProblem } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import { useTitle } from '~/lib/title.ts'
import { Button } from '~/ui/Button.tsx'
import { TextField } from '~/ui/Field.tsx'
import { Page, Panel } from '~/ui/Layout.tsx'

/** NoProjectPage is what an organisation without projects sees first. */
export function NoProjectPage() {
  useTitle('Welcome')
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const create = useMutation({
    mutationFn: () => projectCreate({ name }),
    onSuccess: async (p) => {
      await queryClient.invalidateQueries({ queryKey: ['projects'] })
      await navigate({ to: '/projects/$project/instances', params: { project: p.name } })
    },
  })
  const problem = create.error instanceof ApiProblem ? create.error : null
  return (
    <Page
      title="Make the first project"
      lead="A project holds instances and their limits. This organisation has none yet."
      narrow
    >
      <Panel className="max-w-md">
        <form
          className="flex flex-col gap-4"
          onSubmit={(e) => {
            e.preventDefault()
            create.mutate()
          }}
        >
          <TextField
            label="Name"
            value={name}
            onChange={(e) => setName(e.target.value)}
            hint="Lower-case letters, digits and hyphens"
            error={problem ? (problem.field('name') ?? problem.message) : null}
            required
          />
          <div>
            <Button type="submit" look="primary" busy={create.isPending}>
              Create project
            </Button>
          </div>
        </form>
      </Panel>
    </Page>
  )
}
