import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { useNavigate, useRouter } from '@tanstack/react-router'
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react'
import { instancesQuery } from '~/api/instance.ts'
import { meQuery } from '~/api/me.ts'
import { shownState } from '~/lib/instancestate.ts'
import { makeStore } from '~/lib/store.ts'
import { setTheme } from '~/lib/theme.ts'
import { cx } from '~/ui/cx.ts'
import { Dialog } from '~/ui/Dialog.tsx'
import { Icon, type IconName } from '~/ui/Icon.tsx'
import { Kbd } from '~/ui/Layout.tsx'
import { StatusShape, Tag, type Tone } from '~/ui/StatusPill.tsx'
import { docPages } from './docpages.ts'
import { useProject } from './Shell.tsx'

const palette = makeStore(false)
const help = makeStore(false)
export const openPalette = () => palette.set(true)
export const openHelp = () => help.set(true)

type Entry = {
  label: string
  group: string
  icon?: IconName
  state?: { tone: Tone; word: string }
  simulated?: boolean
  href?: string
  run?: () => void
}

function useEntries(): Entry[] {
  const project = useProject()
  const { data: me } = useSuspenseQuery(meQuery)
  const { data: instances } = useQuery(instancesQuery(project))
  const base = `/projects/${project}`
  const entries: Entry[] = [
    { group: 'Actions', label: 'Create instance', icon: 'plus', href: `${base}/create` },
    { group: 'Pages', label: 'Instances', icon: 'instances', href: `${base}/instances` },
    { group: 'Pages', label: 'Jobs', icon: 'jobs', href: `${base}/jobs` },
    { group: 'Pages', label: 'Images', icon: 'images', href: `${base}/images` },
    { group: 'Pages', label: 'Usage', icon: 'usage', href: `${base}/usage` },
    { group: 'Pages', label: 'Settings', icon: 'settings', href: `${base}/settings` },
    { group: 'Pages', label: 'API tokens', icon: 'tokens', href: '/tokens' },
    ...(me.user.operator
      ? [
          { group: 'Pages', label: 'Fleet', icon: 'fleet' as const, href: '/fleet' },
          { group: 'Pages', label: 'Alarms', icon: 'alarm' as const, href: '/fleet/alarms' },
          { group: 'Pages', label: 'Control plane', icon: 'fleet' as const, href: '/fleet/control-plane' },
        ]
      : []),
  ]
  for (const i of instances ?? [])
    entries.push({
      group: 'Instances',
      label: i.name,
      state: shownState(i),
      simulated: i.simulated,
      href: `${base}/instances/${i.name}`,
    })
  for (const d of docPages)
    entries.push({ group: 'Manual', label: d.title, icon: 'docs', href: `/docs/${d.page}` })
  entries.push(
    { group: 'Actions', label: 'Light theme', icon: 'sun', run: () => setTheme('light') },
    { group: 'Actions', label: 'Dark theme', icon: 'moon', run: () => setTheme('dark') },
    { group: 'Actions', label: 'Keyboard shortcuts', icon: 'help', run: openHelp },
  )
  return entries
}

/** matches finds the letters of the query in order; every word must be found. */
export function matches(label: string, query: string): boolean {
  const text = label.toLowerCase()
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((w) => text.includes(w))
}

/** Palette reaches every page and instance from the keyboard. */
export function Palette() {
  const open = palette.use()
  return (
    <Dialog open={open} onClose={() => palette.set(false)} title="Go to" wide>
      {open && <PaletteList />}
    </Dialog>
  )
}

function PaletteList() {
  const router = useRouter()
  const [query, setQuery] = useState('')
  const [at, setAt] = useState(0)
  const list = useRef<HTMLDivElement>(null)
  const id = useId()
  const found = useEntries().filter((e) => matches(`${e.label} ${e.group}`, query))
  const current = Math.min(at, found.length - 1)

  const go = (e: Entry | undefined) => {
    if (!e) return
    palette.set(false)
    if (e.href) router.history.push(e.href)
    else e.run?.()
  }
  const keys = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key]
    if (step) {
      e.preventDefault()
      const next = (current + step + found.length) % Math.max(1, found.length)
      setAt(next)
      list.current?.querySelector(`#${CSS.escape(`${id}-${next}`)}`)?.scrollIntoView({ block: 'nearest' })
    } else if (e.key === 'Enter') {
      e.preventDefault()
      go(found[current])
    }
  }
  return (
    <div className="flex flex-col gap-2">
      <input
        role="combobox"
        aria-label="Page, instance or action"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={found.length ? `${id}-${current}` : undefined}
        placeholder="Page, instance or action"
        // biome-ignore lint/a11y/noAutofocus: a palette is opened in order to type
        autoFocus
        value={query}
        onChange={(e) => {
          setQuery(e.target.value)
          setAt(0)
        }}
        onKeyDown={keys}
        className="h-9 w-full rounded-control border border-line-strong bg-page px-3 text-14 text-fg"
      />
      <div
        ref={list}
        id={`${id}-list`}
        role="listbox"
        aria-label="Results"
        className="max-h-[46dvh] overflow-y-auto"
      >
        {found.length === 0 && <p className="px-2 py-6 text-center text-fg3">Nothing is called that.</p>}
        {found.map((e, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are handled by the combobox
          <div
            key={`${e.group} ${e.label}`}
            id={`${id}-${i}`}
            role="option"
            tabIndex={-1}
            aria-selected={i === current}
            onClick={() => go(e)}
            onMouseMove={() => setAt(i)}
            className={cx(
              'flex h-8 cursor-default items-center gap-2.5 rounded-[5px] px-2 text-13 text-fg',
              i === current && 'bg-sunken',
            )}
          >
            {e.state ? <StatusShape tone={e.state.tone} /> : e.icon && <Icon name={e.icon} size={14} />}
            <span className="min-w-0 flex-1 truncate">{e.label}</span>
            {e.simulated && <Tag title="Its GPUs, or the whole of it, are simulated">sim</Tag>}
            <span className="shrink-0 text-12 text-fg3">{e.state?.word.toLowerCase() ?? e.group}</span>
          </div>
        ))}
      </div>
    </div>
  )
}

const shortcuts: readonly (readonly [string, string])[] = [
  ['⌘K or Ctrl K', 'Go to a page, an instance or an action'],
  ['C', 'Create an instance'],
  ['G then I', 'Instances'],
  ['G then J', 'Jobs'],
  ['G then M', 'Images'],
  ['G then U', 'Usage'],
  ['G then T', 'API tokens'],
  ['G then F', 'Fleet'],
  ['G then D', 'Manual'],
  ['/', 'Search this list'],
  ['⌘↵ or Ctrl ↵', 'Send the form'],
  ['← →', 'Walk the cells of a GPU bar'],
  ['?', 'This list'],
]

export function ShortcutHelp() {
  return (
    <Dialog open={help.use()} onClose={() => help.set(false)} title="Keyboard shortcuts">
      <dl className="grid grid-cols-[auto_1fr] items-center gap-x-6 gap-y-2">
        {shortcuts.map(([keys, what]) => (
          <div key={keys} className="contents">
            <dt>
              <Kbd>{keys}</Kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}

/** useShortcuts listens for single keys, but never while someone types. */
export function useShortcuts() {
  const navigate = useNavigate()
  const project = useProject()
  useEffect(() => {
    let afterG = 0
    const onKey = (e: globalThis.KeyboardEvent) => {
      const el = e.target instanceof HTMLElement ? e.target : null
      const inTerminal = Boolean(el?.closest('.xterm'))
      if ((e.metaKey || e.ctrlKey) && e.key.toLowerCase() === 'k') {
        if (inTerminal && !e.metaKey) return // Ctrl K is the shell's own
        e.preventDefault()
        palette.set(!palette.get())
        return
      }
      if (e.metaKey || e.ctrlKey || e.altKey || palette.get() || help.get()) return
      if (document.querySelector('[role=dialog], [role=alertdialog]')) return
      if (el?.closest('input, textarea, select, [contenteditable], .xterm, [role=menu]')) return
      const params = { project }
      if (Date.now() - afterG < 1200) {
        afterG = 0
        const to: Record<string, () => void> = {
          i: () => void navigate({ to: '/projects/$project/instances', params }),
          j: () => void navigate({ to: '/projects/$project/jobs', params }),
          m: () => void navigate({ to: '/projects/$project/images', params }),
          u: () => void navigate({ to: '/projects/$project/usage', params }),
          t: () => void navigate({ to: '/tokens' }),
          f: () => void navigate({ to: '/fleet' }),
          d: () => void navigate({ to: '/docs' }),
        }
        to[e.key]?.()
        return
      }
      if (e.key === 'g') afterG = Date.now()
      else if (e.key === '?') help.set(true)
      else if (e.key === 'c') void navigate({ to: '/projects/$project/create', params })
      else if (e.key === '/') {
        const search = document.querySelector<HTMLInputElement>('main input[type=search]')
        if (search) {
          e.preventDefault()
          search.focus()
        }
      }
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [navigate, project])
}
