/** What the create form holds, and how it becomes a request, a command, a curl line and a file. */
export type Kind = 'container' | 'notebook' | 'vm'

export type CreateForm = {
  kind: Kind
  name: string
  image: string
  flavor: string
  pool: string
  command: string
  env: string
  sshKeys: string
  userData: string
  onStop: 'release' | 'hold'
  onNodeLoss: 'wait' | 'restart'
  onNodeReboot?: NodeReboot // absent: as its kind has it
}

export const emptyForm: CreateForm = {
  kind: 'container',
  name: '',
  image: '',
  flavor: '',
  pool: '',
  command: '',
  env: '',
  sshKeys: '',
  userData: '',
  onStop: 'release',
  onNodeLoss: 'wait',
}

type Request = {
  name: string
  image: string
  flavor: string
  kind: Kind
  pool?: string
  command?: string[]
  env?: Record<string, string>
  ssh_keys?: string[]
  user_data?: string
  on_stop?: 'release' | 'hold'
  on_node_loss?: 'wait' | 'restart'
  on_node_reboot?: NodeReboot
}

export type NodeReboot = 'restart' | 'fail'

/** rebootDefault is what becomes of a kind when its node is booted again. */
export const rebootDefault = (kind: string): NodeReboot => (dataKept(kind) ? 'restart' : 'fail')

/** dataKept tells whether a kind has a volume that outlives a stop. */
export const dataKept = (kind: string) => kind === 'vm' || kind === 'notebook'

/** vmRefusal says why a shape can't be a VM, or null; the server refuses the same. */
export function vmRefusal(f: {
  gpu_count: number
  gpu_mode?: string
  memory_mib: number
  disk_mib: number
}): string | null {
  if (f.gpu_count > 0 && f.gpu_mode === 'mig')
    return 'A VM can’t hold a MIG slice: choose a container, a whole GPU, or a MIG-backed vGPU type'
  if (f.memory_mib < 1024 || f.disk_mib < 4096) return 'A VM needs at least 1 GiB of memory and 4 GiB of disk'
  return null
}

/** splitCommand reads a line as a shell would: spaces part words, quotes keep them together. */
export function splitCommand(line: string): string[] {
  const words: string[] = []
  let word = ''
  let quote = ''
  let any = false
  for (let i = 0; i < line.length; i++) {
    const c = line[i] ?? ''
    if (quote) {
      if (c === quote) quote = ''
      else if (c === '\\' && quote === '"' && i + 1 < line.length) word += line[++i]
      else word += c
    } else if (c === "'" || c === '"') {
      quote = c
      any = true
    } else if (c === '\\' && i + 1 < line.length) word += line[++i]
    else if (/\s/.test(c)) {
      if (word || any) words.push(word)
      word = ''
      any = false
    } else word += c
  }
  if (word || any) words.push(word)
  return words
}

/** parseEnv reads KEY=value lines; a line that is none is named. */
export function parseEnv(text: string): { env: Record<string, string>; error: string | null } {
  const env: Record<string, string> = {}
  const bad: string[] = []
  for (const line of text.split('\n')) {
    if (!line.trim() || line.trim().startsWith('#')) continue
    const at = line.indexOf('=')
    const key = line.slice(0, at).trim()
    if (at < 1 || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) bad.push(line.trim())
    else env[key] = line.slice(at + 1)
  }
  return { env, error: bad.length ? `Not NAME=value: ${bad.join(', ')}` : null }
}

const keyTypes =
  /^(ssh-(rsa|ed25519)|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9-]+@openssh\.com)\s+[A-Za-z0-9+/]+=*(\s|$)/

/** parseKeys reads one public key a line; a private key is never sent. */
export function parseKeys(text: string): { keys: string[]; error: string | null } {
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text))
    return { keys: [], error: 'That is a private key: it stays with you. Paste the line of the .pub file.' }
  const lines = text
    .split('\n')
    .map((l) => l.trim())
    .filter((l) => l && !l.startsWith('#'))
  const bad = lines.filter((l) => !keyTypes.test(l))
  if (bad.length)
    return {
      keys: [],
      error: `Not a public key: ${bad.map((l) => (l.length > 32 ? `${l.slice(0, 32)}…` : l)).join(', ')}`,
    }
  if (lines.length > 16) return { keys: [], error: 'At most 16 keys' }
  return { keys: [...new Set(lines)], error: null }
}

/** toRequest leaves out what the kind has no use for, and what is the server's default. */
export function toRequest(f: CreateForm): Request {
  const vm = f.kind === 'vm'
  const command = vm ? [] : splitCommand(f.command)
  const env = vm ? {} : parseEnv(f.env).env
  const keys = vm ? parseKeys(f.sshKeys).keys : []
  return {
    name: f.name.trim(),
    image: f.image,
    flavor: f.flavor,
    kind: f.kind,
    ...(f.pool ? { pool: f.pool } : {}),
    ...(command.length ? { command } : {}),
    ...(Object.keys(env).length ? { env } : {}),
    ...(keys.length ? { ssh_keys: keys } : {}),
    ...(vm && f.userData.trim() ? { user_data: f.userData } : {}),
    ...(vm && f.onStop === 'hold' ? { on_stop: f.onStop } : {}),
    ...(f.onNodeLoss === 'restart' ? { on_node_loss: f.onNodeLoss } : {}),
    ...(f.onNodeReboot && f.onNodeReboot !== rebootDefault(f.kind) ? { on_node_reboot: f.onNodeReboot } : {}),
  }
}

/** quote makes a word safe for a POSIX shell. */
export const quote = (w: string) =>
  /^[A-Za-z0-9_@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", `'\\''`)}'`

export function toCLI(f: CreateForm, project: string): string {
  const r = toRequest(f)
  const lines = [`tenon instance create ${quote(r.name || 'NAME')} --project ${quote(project)}`]
  if (r.kind !== 'container') lines.push(`--kind ${r.kind}`)
  lines.push(`--image ${quote(r.image || 'IMAGE')} --flavor ${quote(r.flavor || 'FLAVOR')}`)
  if (r.pool) lines.push(`--pool ${quote(r.pool)}`)
  for (const _ of r.ssh_keys ?? []) lines.push('--ssh-key FILE.pub')
  if (r.user_data) lines.push('--user-data FILE')
  if (r.on_stop) lines.push(`--on-stop ${r.on_stop}`)
  if (r.on_node_loss) lines.push(`--on-node-loss ${r.on_node_loss}`)
  if (r.on_node_reboot) lines.push(`--on-node-reboot ${r.on_node_reboot}`)
  for (const [k, v] of Object.entries(r.env ?? {})) lines.push(`--env ${quote(`${k}=${v}`)}`)
  lines.push(r.command ? `--wait -- ${r.command.map(quote).join(' ')}` : '--wait')
  return lines.join(' \\\n  ')
}

/** toYAML is the same request as a file: strings that could be read as something else are quoted. */
export function toYAML(f: CreateForm): string {
  const scalar = (v: string) =>
    /^[A-Za-z_/][A-Za-z0-9_./+@-]*$/.test(v) && !/^(true|false|yes|no|on|off|null|y|n)$/i.test(v)
      ? v
      : JSON.stringify(v)
  const lines: string[] = []
  for (const [key, value] of Object.entries(toRequest(f))) {
    if (typeof value === 'string' && value.includes('\n'))
      lines.push(
        `${key}: |`,
        ...value
          .replace(/\n$/, '')
          .split('\n')
          .map((l) => `  ${l}`),
      )
    else if (typeof value === 'string') lines.push(`${key}: ${scalar(value)}`)
    else if (Array.isArray(value)) lines.push(`${key}:`, ...value.map((v) => `  - ${scalar(v)}`))
    else if (value) lines.push(`${key}:`, ...Object.entries(value).map(([k, v]) => `  ${k}: ${scalar(v)}`))
  }
  return lines.join('\n')
}

export function toCurl(f: CreateForm, project: string, origin: string): string {
  const body = JSON.stringify(toRequest(f), null, 2)
  return [
    `curl -X POST ${origin}/v1/projects/${project}/instances \\`,
    `  -H "Authorization: Bearer $TENON_TOKEN" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d ${quote(body)}`,
  ].join('\n')
}

/** nextName suggests a name that is not taken. */
export function nextName(taken: readonly string[], stem = 'instance'): string {
  const used = new Set(taken)
  for (let n = 1; ; n++) if (!used.has(`${stem}-${n}`)) return `${stem}-${n}`
}
