import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router'
import { nodesQuery } from '~/api/fleet.ts'
import { instanceQuery, instancesQuery } from '~/api/instance.ts'
import { jobQuery, jobsQuery } from '~/api/job.ts'
import { meQuery, projectQuery, projectsQuery } from '~/api/me.ts'
import { flavorsQuery, imagesQuery } from '~/api/offer.ts'
import { queryClient } from '~/api/query.ts'
import type { Kind } from '~/lib/createform.ts'
import { type InstanceFilter, isFilter } from '~/lib/instancestate.ts'
import { type JobState, jobStates } from '~/lib/jobstate.ts'
import { remember } from '~/lib/prefs.ts'
import type { AlarmSearch } from '~/pages/AlarmsPage.tsx'
import type { FleetSearch } from '~/pages/FleetPage.tsx'
import { NoProjectPage } from '~/pages/NoProjectPage.tsx'
import { NotFoundPage, RouteErrorPage } from '~/pages/NotFoundPage.tsx'
import { ProjectLayout } from '~/pages/ProjectLayout.tsx'
import { DocsLayout, Shell } from '~/pages/Shell.tsx'
import { homeProject, requireSession, safeReturn, trySession } from './guard.ts'

const text = (v: unknown) => (typeof v === 'string' && v !== '' ? v : undefined)
const oneOf = <T extends string>(v: unknown, all: readonly T[]) => all.find((a) => a === v)

const rootRoute = createRootRoute({ component: Outlet, notFoundComponent: NotFoundPage })

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/signin',
  validateSearch: (s: Record<string, unknown>): { return?: string } => ({
    return: safeReturn(text(s.return)),
  }),
  component: lazyRouteComponent(() => import('~/pages/SignInPage.tsx'), 'SignInPage'),
})

const appRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: 'app',
  beforeLoad: async ({ location }) => {
    await requireSession(location.href)
    await queryClient.ensureQueryData(meQuery)
    await queryClient.ensureQueryData(projectsQuery)
  },
  component: Shell,
  errorComponent: RouteErrorPage,
})

const homeRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/',
  beforeLoad: async () => {
    const project = await homeProject()
    if (project) throw redirect({ to: '/projects/$project/instances', params: { project }, replace: true })
  },
  component: NoProjectPage,
})

const projectRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/projects/$project',
  beforeLoad: ({ params }) => remember('project', params.project),
  component: ProjectLayout,
})

const projectHomeRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/',
  beforeLoad: ({ params }) => {
    throw redirect({ to: '/projects/$project/instances', params, replace: true })
  },
})

const instancesRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: 'instances',
  validateSearch: (s: Record<string, unknown>): { q?: string; state?: InstanceFilter; kind?: Kind } => ({
    q: text(s.q),
    state: typeof s.state === 'string' && isFilter(s.state) ? s.state : undefined,
    kind: oneOf(s.kind, ['container', 'notebook', 'vm'] as const),
  }),
  loader: ({ params }) => void queryClient.prefetchQuery(instancesQuery(params.project)),
  component: lazyRouteComponent(() => import('~/pages/InstancesPage.tsx'), 'InstancesPage'),
})

const createInstanceRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: 'create',
  validateSearch: (
    s: Record<string, unknown>,
  ): { image?: string; flavor?: string; kind?: Kind; pool?: string } => ({
    image: text(s.image),
    flavor: text(s.flavor),
    kind: oneOf(s.kind, ['container', 'notebook', 'vm'] as const),
    pool: text(s.pool),
  }),
  loader: () => {
    void queryClient.prefetchQuery(flavorsQuery)
    void queryClient.prefetchQuery(imagesQuery)
  },
  component: lazyRouteComponent(() => import('~/pages/InstanceCreatePage.tsx'), 'InstanceCreatePage'),
})

const instanceRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: 'instances/$instance',
  loader: ({ params }) => void queryClient.prefetchQuery(instanceQuery(params.project, params.instance)),
  component: lazyRouteComponent(() => import('~/pages/InstancePage.tsx'), 'InstancePage'),
})

const instanceTabs = [
  createRoute({
    getParentRoute: () => instanceRoute,
    path: '/',
    component: lazyRouteComponent(() => import('~/pages/InstanceOverview.tsx'), 'InstanceOverview'),
  }),
  createRoute({
    getParentRoute: () => instanceRoute,
    path: 'terminal',
    component: lazyRouteComponent(() => import('~/pages/InstanceTerminal.tsx'), 'InstanceTerminal'),
  }),
  createRoute({
    getParentRoute: () => instanceRoute,
    path: 'console',
    component: lazyRouteComponent(() => import('~/pages/InstanceConsole.tsx'), 'InstanceConsole'),
  }),
  createRoute({
    getParentRoute: () => instanceRoute,
    path: 'screen',
    component: lazyRouteComponent(() => import('~/pages/InstanceConsole.tsx'), 'InstanceScreen'),
  }),
  createRoute({
    getParentRoute: () => instanceRoute,
    path: 'logs',
    component: lazyRouteComponent(() => import('~/pages/InstanceLogs.tsx'), 'InstanceLogs'),
  }),
  createRoute({
    getParentRoute: () => instanceRoute,
    path: 'metrics',
    component: lazyRouteComponent(() => import('~/pages/InstanceMetrics.tsx'), 'InstanceMetrics'),
  }),
  createRoute({
    getParentRoute: () => instanceRoute,
    path: 'events',
    component: lazyRouteComponent(() => import('~/pages/InstanceEvents.tsx'), 'InstanceEvents'),
  }),
] as const

const jobsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: 'jobs',
  validateSearch: (s: Record<string, unknown>): { q?: string; state?: JobState } => ({
    q: text(s.q),
    state: oneOf(s.state, jobStates),
  }),
  loader: ({ params }) => void queryClient.prefetchQuery(jobsQuery(params.project)),
  component: lazyRouteComponent(() => import('~/pages/JobsPage.tsx'), 'JobsPage'),
})

const jobRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: 'jobs/$job',
  loader: ({ params }) => void queryClient.prefetchQuery(jobQuery(params.project, params.job)),
  component: lazyRouteComponent(() => import('~/pages/JobPage.tsx'), 'JobPage'),
})

const jobTabs = [
  createRoute({
    getParentRoute: () => jobRoute,
    path: '/',
    component: lazyRouteComponent(() => import('~/pages/JobOverview.tsx'), 'JobOverview'),
  }),
  createRoute({
    getParentRoute: () => jobRoute,
    path: 'logs',
    validateSearch: (s: Record<string, unknown>): { rank?: number } => ({
      rank: typeof s.rank === 'number' && Number.isInteger(s.rank) && s.rank >= 0 ? s.rank : undefined,
    }),
    component: lazyRouteComponent(() => import('~/pages/JobLogs.tsx'), 'JobLogs'),
  }),
  createRoute({
    getParentRoute: () => jobRoute,
    path: 'events',
    component: lazyRouteComponent(() => import('~/pages/JobLogs.tsx'), 'JobEvents'),
  }),
] as const

const day = (v: unknown) => (typeof v === 'string' && /^\d{4}-\d{2}-\d{2}$/.test(v) ? v : undefined)

const usageRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: 'usage',
  validateSearch: (s: Record<string, unknown>): { from?: string; to?: string; by?: 'day' | 'instance' } => ({
    from: day(s.from),
    to: day(s.to),
    by: oneOf(s.by, ['day', 'instance'] as const),
  }),
  component: lazyRouteComponent(() => import('~/pages/UsagePage.tsx'), 'UsagePage'),
})

const imagesRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: 'images',
  loader: () => void queryClient.prefetchQuery(imagesQuery),
  component: lazyRouteComponent(() => import('~/pages/ImagesPage.tsx'), 'ImagesPage'),
})

const settingsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: 'settings',
  loader: ({ params }) => void queryClient.prefetchQuery(projectQuery(params.project)),
  component: lazyRouteComponent(() => import('~/pages/SettingsPage.tsx'), 'SettingsPage'),
})

/** Where the sign-in of a web app's own host goes on. */
const openRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/open/$host',
  component: lazyRouteComponent(() => import('~/pages/OpenPage.tsx'), 'OpenPage'),
})

const openQueryRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/open',
  validateSearch: (s: Record<string, unknown>): { host?: string } => ({ host: text(s.host) }),
  component: lazyRouteComponent(() => import('~/pages/OpenPage.tsx'), 'OpenPage'),
})

const tokensRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/tokens',
  component: lazyRouteComponent(() => import('~/pages/TokensPage.tsx'), 'TokensPage'),
})

const fleetRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/fleet',
  validateSearch: (s: Record<string, unknown>): FleetSearch => ({
    lens: oneOf(s.lens, ['state', 'utilisation'] as const),
    q: text(s.q),
    sim: oneOf(s.sim, ['hide'] as const),
    view: oneOf(s.view, ['map', 'rows'] as const),
  }),
  loader: () => {
    if (!queryClient.getQueryData(meQuery.queryKey)?.user.operator) return
    void queryClient.prefetchQuery(nodesQuery)
  },
  component: lazyRouteComponent(() => import('~/pages/FleetPage.tsx'), 'FleetPage'),
})

const alarmsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/fleet/alarms',
  validateSearch: (s: Record<string, unknown>): AlarmSearch => ({
    q: text(s.q),
    state: oneOf(s.state, ['open', 'acknowledged', 'cleared'] as const),
    severity: oneOf(s.severity, ['critical', 'warning'] as const),
  }),
  component: lazyRouteComponent(() => import('~/pages/AlarmsPage.tsx'), 'AlarmsPage'),
})

const controlPlaneRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/fleet/control-plane',
  component: lazyRouteComponent(() => import('~/pages/ControlPlanePage.tsx'), 'ControlPlanePage'),
})

const nodeRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/fleet/nodes/$node',
  component: lazyRouteComponent(() => import('~/pages/NodePage.tsx'), 'NodePage'),
})

const gpuRoute = createRoute({
  getParentRoute: () => appRoute,
  path: '/fleet/gpus/$gpu',
  component: lazyRouteComponent(() => import('~/pages/GPUPage.tsx'), 'GPUPage'),
})

/** Any other address: said inside the console, with the way back beside it. */
const lostRoute = createRoute({ getParentRoute: () => appRoute, path: '$', component: NotFoundPage })

const docsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/docs',
  beforeLoad: trySession,
  component: DocsLayout,
})

const docsPages = [
  createRoute({
    getParentRoute: () => docsRoute,
    path: '/',
    component: lazyRouteComponent(() => import('~/pages/DocsPage.tsx'), 'DocsPage'),
  }),
  createRoute({
    getParentRoute: () => docsRoute,
    path: '$page',
    component: lazyRouteComponent(() => import('~/pages/DocsPage.tsx'), 'DocsPage'),
  }),
] as const

const routeTree = rootRoute.addChildren([
  signInRoute,
  docsRoute.addChildren(docsPages),
  appRoute.addChildren([
    homeRoute,
    projectRoute.addChildren([
      projectHomeRoute,
      instancesRoute,
      createInstanceRoute,
      instanceRoute.addChildren(instanceTabs),
      jobsRoute,
      jobRoute.addChildren(jobTabs),
      usageRoute,
      imagesRoute,
      settingsRoute,
    ]),
    openRoute,
    openQueryRoute,
    tokensRoute,
    fleetRoute,
    alarmsRoute,
    controlPlaneRoute,
    nodeRoute,
    gpuRoute,
    lostRoute,
  ]),
])

export const router = createRouter({
  routeTree,
  defaultPreload: 'intent',
  defaultPreloadStaleTime: 0,
  defaultPendingMs: 400,
  scrollRestoration: true,
  defaultErrorComponent: RouteErrorPage,
  defaultNotFoundComponent: NotFoundPage,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
