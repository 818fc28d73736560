/** What the create form holds, and how it becomes a request, a command and a curl line. */
export type CreateForm = { name: string; image: string; flavor: string; command: string; env: string }

type Request = {
  name: string
  image: string
  flavor: string
  kind: 'container'
  command?: string[]
  env?: Record<string, string>
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

export function toRequest(f: CreateForm): Request {
  const command = splitCommand(f.command)
  const { env } = parseEnv(f.env)
  return {
    name: f.name.trim(),
    image: f.image,
    flavor: f.flavor,
    kind: 'container',
    ...(command.length ? { command } : {}),
    ...(Object.keys(env).length ? { env } : {}),
  }
}

/** quote makes a word safe for a POSIX shell. */
export const quote = (w: string) =>
  /^[A-Za-z0-9_@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", `'\\''`)}'`

export function toCLI(f: CreateForm, project: string): string {
  const r = toRequest(f)
  const lines = [`tenon instance create ${quote(r.name || 'NAME')} --project ${quote(project)}`]
  lines.push(`--image ${quote(r.image || 'IMAGE')} --flavor ${quote(r.flavor || 'FLAVOR')}`)
  for (const [k, v] of Object.entries(r.env ?? {})) lines.push(`--env ${quote(`${k}=${v}`)}`)
  lines.push(r.command ? `--wait -- ${r.command.map(quote).join(' ')}` : '--wait')
  return lines.join(' \\\n  ')
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
