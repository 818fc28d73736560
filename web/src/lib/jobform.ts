import { parseEnv, quote, splitCommand } from './createform.ts'

/** What the dialog of a new job holds, and how it becomes a request and a command. */
export type JobForm = {
  name?: string // absent: a name is suggested
  image: string
  flavor: string
  made: 'gang' | 'array'
  members: string
  least: string
  across: boolean
  tasks: string
  parallel: string
  command: string
  env: string
  priority: 'low' | 'normal' | 'high'
  retries: string
  minutes: string
}

export const emptyJob: JobForm = {
  image: '',
  flavor: '',
  made: 'gang',
  members: '1',
  least: '',
  across: false,
  tasks: '10',
  parallel: '',
  command: '',
  env: '',
  priority: 'normal',
  retries: '0',
  minutes: '',
}

const whole = (s: string) => (/^\d{1,6}$/.test(s.trim()) ? Number(s) : null)

/** wrongJob says what is missing or can't be read, or null; what is possible the server says. */
export function wrongJob(f: JobForm): string | null {
  if (!f.name) return 'Give it a name'
  if (!f.image) return 'Choose an image'
  if (!f.flavor) return 'Choose a shape'
  if (parseEnv(f.env).error) return 'Mend the environment'
  const fields: [string, string, boolean][] = [
    ['Members', f.members, f.made === 'gang'],
    ['At least', f.least || '1', f.made === 'gang'],
    ['Tasks', f.tasks, f.made === 'array'],
    ['At once', f.parallel || '1', f.made === 'array'],
    ['Retries', f.retries, true],
    ['End it after', f.minutes || '1', true],
  ]
  for (const [name, value, used] of fields)
    if (used && whole(value) === null) return `${name}: a whole number`
  return null
}

/** toJobRequest leaves out what is the server's default. */
export function toJobRequest(f: JobForm) {
  const command = splitCommand(f.command)
  const { env } = parseEnv(f.env)
  const gang = f.made === 'gang'
  const members = whole(f.members) ?? 0
  const minutes = whole(f.minutes)
  return {
    name: (f.name ?? '').trim(),
    image: f.image,
    flavor: f.flavor,
    ...(gang && members !== 1 ? { members } : {}),
    ...(gang && f.least ? { members, members_min: whole(f.least) ?? 0 } : {}),
    ...(gang && f.across && members !== 1 ? { across_nodes: true } : {}),
    ...(!gang ? { array: whole(f.tasks) ?? 0 } : {}),
    ...(!gang && f.parallel ? { parallel: whole(f.parallel) ?? 0 } : {}),
    ...(command.length ? { command } : {}),
    ...(Object.keys(env).length ? { env } : {}),
    ...(f.priority !== 'normal' ? { priority: f.priority } : {}),
    ...(whole(f.retries) ? { retries: whole(f.retries) ?? 0 } : {}),
    ...(minutes ? { max_seconds: minutes * 60 } : {}),
  }
}

/** toJobCLI is the same request as a command. */
export function toJobCLI(f: JobForm, project: string): string {
  const r: Record<string, unknown> & ReturnType<typeof toJobRequest> = toJobRequest(f)
  const lines = [
    `tenon job run ${quote(r.name || 'NAME')} --project ${quote(project)}`,
    `--image ${quote(r.image || 'IMAGE')} --flavor ${quote(r.flavor || 'FLAVOR')}`,
  ]
  for (const [field, flag] of [
    ['members', 'members'],
    ['members_min', 'members-min'],
    ['array', 'array'],
    ['parallel', 'parallel'],
    ['priority', 'priority'],
    ['retries', 'retries'],
  ] as const)
    if (r[field] !== undefined) lines.push(`--${flag} ${r[field]}`)
  if (r.across_nodes) lines.push('--across-nodes')
  if (r.max_seconds) lines.push(`--max ${r.max_seconds / 60}m`)
  for (const [k, v] of Object.entries(r.env ?? {})) lines.push(`--env ${quote(`${k}=${v}`)}`)
  lines.push(r.command ? `--wait -- ${r.command.map(quote).join(' ')}` : '--wait')
  return lines.join(' \\\n  ')
}
