import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { meQuery, projectsQuery } from '~/api/me.ts'
import { queryClient } from '~/api/query.ts'
import { session, setCurrentOrg, signOut } from '~/api/session.ts'
import { recall } from '~/lib/prefs.ts'
import { setTheme, type ThemeChoice, useThemeChoice } from '~/lib/theme.ts'
import { IconButton } from '~/ui/Button.tsx'
import { Drawer } from '~/ui/Dialog.tsx'
import { Icon, type IconName } from '~/ui/Icon.tsx'
import { Kbd } from '~/ui/Layout.tsx'
import { Mark } from '~/ui/Mark.tsx'
import { Menu, type MenuItem } from '~/ui/Menu.tsx'
import { openHelp, openPalette, Palette, ShortcutHelp, useShortcuts } from './Palette.tsx'
import { SessionEnded } from './SessionEnded.tsx'

/** useProject is the project in the address, or the one that was open last. */
export function useProject(): string {
  const { project } = useParams({ strict: false })
  const { data } = useQuery({ ...projectsQuery, enabled: session.get() === 'in' })
  const last = recall('project')
  return project ?? data?.find((p) => p.name === last)?.name ?? data?.[0]?.name ?? 'default'
}

const itemClass =
  'quick flex h-8 items-center gap-2.5 rounded-control px-2.5 text-13 text-fg2 no-underline pointer-coarse:h-11 hover:bg-sunken hover:text-fg aria-[current=page]:bg-sunken aria-[current=page]:font-medium aria-[current=page]:text-fg [&[aria-current=page]>svg]:text-accent-ink'

function Group({ label, children }: { label: string; children: React.ReactNode }) {
  return (
    <div>
      <div className="px-2.5 pt-4 pb-1 text-12 text-fg3">{label}</div>
      <ul className="flex flex-col gap-px">{children}</ul>
    </div>
  )
}

function Nav({ onNavigate }: { onNavigate?: () => void }) {
  const project = useProject()
  const { data: me } = useSuspenseQuery(meQuery)
  const row = (icon: IconName, label: string) => (
    <>
      <Icon name={icon} /> {label}
    </>
  )
  const common = { className: itemClass, onClick: onNavigate }
  return (
    <nav aria-label="Main" className="min-h-0 flex-1 overflow-y-auto px-2 pb-4">
      <Group label="Project">
        <li>
          <Link to="/projects/$project/instances" params={{ project }} {...common}>
            {row('instances', 'Instances')}
          </Link>
        </li>
        <li>
          <Link to="/projects/$project/jobs" params={{ project }} {...common}>
            {row('jobs', 'Jobs')}
          </Link>
        </li>
        <li>
          <Link to="/projects/$project/images" params={{ project }} {...common}>
            {row('images', 'Images')}
          </Link>
        </li>
        <li>
          <Link to="/projects/$project/usage" params={{ project }} {...common}>
            {row('usage', 'Usage')}
          </Link>
        </li>
        <li>
          <Link to="/projects/$project/settings" params={{ project }} {...common}>
            {row('settings', 'Settings')}
          </Link>
        </li>
      </Group>
      <Group label="Organisation">
        <li>
          <Link to="/tokens" {...common}>
            {row('tokens', 'API tokens')}
          </Link>
        </li>
      </Group>
      {me.user.operator && (
        <Group label="Operator">
          <li>
            <Link to="/fleet" {...common}>
              {row('fleet', 'Fleet')}
            </Link>
          </li>
        </Group>
      )}
      <Group label="Help">
        <li>
          <Link to="/docs" {...common}>
            {row('docs', 'Manual')}
          </Link>
        </li>
      </Group>
    </nav>
  )
}

function ProjectSwitcher({ onNavigate }: { onNavigate?: () => void }) {
  const navigate = useNavigate()
  const project = useProject()
  const { data: me } = useSuspenseQuery(meQuery)
  const { data: projects } = useSuspenseQuery(projectsQuery)
  const items: MenuItem[] = [{ kind: 'heading', label: 'Projects' }]
  for (const p of projects)
    items.push({
      label: p.display_name || p.name,
      checked: p.name === project || p.id === project,
      onSelect: () => {
        onNavigate?.()
        void navigate({ to: '/projects/$project/instances', params: { project: p.name } })
      },
    })
  if (me.organisations.length > 1) {
    items.push({ kind: 'line' }, { kind: 'heading', label: 'Organisations' })
    for (const o of me.organisations)
      items.push({
        label: o.name,
        checked: o.id === me.organisation.id,
        onSelect: () => {
          setCurrentOrg(o.name)
          queryClient.clear()
          location.assign('/')
        },
      })
  }
  const shown = projects.find((p) => p.name === project || p.id === project)
  return (
    <Menu
      align="start"
      label="Projects and organisations"
      items={items}
      trigger={
        <button
          type="button"
          className="quick flex w-full items-center gap-2 rounded-control border border-line bg-raised px-2.5 py-1.5 text-left hover:border-line-strong"
        >
          <span className="min-w-0 flex-1">
            <span className="block truncate text-13 leading-4 font-medium">
              <span className="sr-only">Project </span>
              {shown?.display_name || project}
            </span>
            <span className="block truncate text-12 text-fg3">
              <span className="sr-only">of organisation </span>
              {me.organisation.name}
            </span>
          </span>
          <Icon name="chevron" size={14} />
        </button>
      }
    />
  )
}

const themes: readonly { value: ThemeChoice; label: string; icon: IconName }[] = [
  { value: 'system', label: 'System theme', icon: 'system' },
  { value: 'light', label: 'Light', icon: 'sun' },
  { value: 'dark', label: 'Dark', icon: 'moon' },
]

function UserMenu() {
  const { data: me } = useSuspenseQuery(meQuery)
  const choice = useThemeChoice()
  const leave = async () => {
    await signOut()
    queryClient.clear()
  }
  return (
    <Menu
      align="start"
      label="Account"
      items={[
        { kind: 'heading', label: me.user.email },
        ...themes.map(
          (t): MenuItem => ({
            label: t.label,
            icon: t.icon,
            checked: t.value === choice,
            onSelect: () => setTheme(t.value),
          }),
        ),
        { kind: 'line' },
        { label: 'Keyboard shortcuts', icon: 'help', note: <Kbd>?</Kbd>, onSelect: openHelp },
        { label: 'Sign out', icon: 'out', onSelect: () => void leave() },
        { kind: 'line' },
        { kind: 'heading', label: `Tenon ${me.version}` },
      ]}
      trigger={
        <button
          type="button"
          className="quick flex w-full items-center gap-2.5 rounded-control px-2.5 py-1.5 text-left text-13 text-fg2 hover:bg-sunken hover:text-fg"
        >
          <Icon name="user" />
          <span className="min-w-0 flex-1 truncate">
            <span className="sr-only">Account: </span>
            {me.user.name || me.user.email}
          </span>
        </button>
      }
    />
  )
}

function Side({ onNavigate }: { onNavigate?: () => void }) {
  return (
    <>
      <div className="flex flex-col gap-3 px-2 pt-3">
        <Link
          to="/"
          onClick={onNavigate}
          className="flex h-8 items-center gap-2.5 px-2.5 text-fg no-underline"
        >
          <Mark size={20} />
          <span className="text-14 font-semibold tracking-tight">Tenon</span>
        </Link>
        <ProjectSwitcher onNavigate={onNavigate} />
        <button
          type="button"
          onClick={() => {
            onNavigate?.()
            openPalette()
          }}
          className="quick flex h-8 items-center gap-2.5 rounded-control px-2.5 text-13 text-fg3 hover:bg-sunken hover:text-fg"
        >
          <Icon name="search" />
          <span className="flex-1 text-left">Go to…</span>
          <Kbd>{/Mac/.test(navigator.userAgent) ? '⌘K' : 'Ctrl K'}</Kbd>
        </button>
      </div>
      <Nav onNavigate={onNavigate} />
      <div className="border-t border-line p-2">
        <UserMenu />
      </div>
    </>
  )
}

/** Shell is the frame of every signed-in page. */
export function Shell({ children }: { children?: React.ReactNode }) {
  const [drawer, setDrawer] = useState(false)
  const state = session.use()
  const navigate = useNavigate()
  useShortcuts()
  useEffect(() => {
    if (state === 'out')
      void navigate({ to: '/signin', search: { return: location.pathname + location.search }, replace: true })
  }, [state, navigate])
  return (
    <div className="md:grid md:min-h-dvh md:grid-cols-[216px_minmax(0,1fr)]">
      <a
        href="#content"
        className="sr-only z-50 rounded-control bg-raised px-3 py-1 focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to the content
      </a>
      <aside className="sticky top-0 hidden h-dvh flex-col border-r border-line md:flex">
        <Side />
      </aside>
      <header className="sticky top-0 z-30 flex h-12 items-center gap-2 border-b border-line bg-page px-2 md:hidden">
        <IconButton label="Open the menu" icon="menu" onClick={() => setDrawer(true)} />
        <Link to="/" className="flex items-center gap-2 text-fg no-underline">
          <Mark size={18} />
          <span className="text-14 font-semibold">Tenon</span>
        </Link>
        <span className="flex-1" />
        <IconButton label="Go to…" icon="search" onClick={openPalette} />
      </header>
      <Drawer open={drawer} onClose={() => setDrawer(false)} title="Menu">
        <Side onNavigate={() => setDrawer(false)} />
      </Drawer>
      <main id="content" className="min-w-0">
        <SessionEnded />
        {children ?? <Outlet />}
      </main>
      <Palette />
      <ShortcutHelp />
    </div>
  )
}

/** DocsLayout shows the manual inside the shell, or by itself to someone who is not signed in. */
export function DocsLayout() {
  const signedIn = session.use() === 'in'
  const { data: me } = useQuery({ ...meQuery, enabled: signedIn })
  const { data: projects } = useQuery({ ...projectsQuery, enabled: signedIn })
  if (signedIn && me && projects)
    return (
      <Shell>
        <Outlet />
      </Shell>
    )
  return (
    <>
      <header className="flex h-12 items-center justify-between border-b border-line px-4 md:px-6">
        <Link to="/docs" className="flex items-center gap-2 text-fg no-underline">
          <Mark size={18} />
          <span className="text-14 font-semibold">Tenon manual</span>
        </Link>
        <Link to="/" className="link text-13">
          {signedIn ? 'Console' : 'Sign in'}
        </Link>
      </header>
      <main>
        <Outlet />
      </main>
    </>
  )
}
