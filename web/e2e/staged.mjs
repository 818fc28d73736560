/**
 * States that a quiet cloud does not show, made by changing what the API answers on the way to the page:
 * for looking at, never for proving that something works.
 */
const ago = (minutes) => new Date(Date.now() - minutes * 60_000).toISOString()
const json = (route, body) => route.fulfill({ json: body })

const base = (project) => ({
  id: 'inst_01k3zq8h2mfw4v8y0c6d9r2t5x',
  project,
  project_id: 'proj_01k3zq8h2mfw4v8y0c6d9r2t5x',
  image_id: 'img_01k3zq8h2mfw4v8y0c6d9r2t5x',
  image_digest: 'sha256:8f1c0c8bb15e5dd9a0fc1dd31da0a1e7a8a44ad8a5dba3ee1bb8fd4e1d5d6f11',
  flavor_id: 'flv_01k3zq8h2mfw4v8y0c6d9r2t5x',
  pool: 'default',
  vcpu: 8,
  memory_mib: 65536,
  disk_mib: 51200,
  desired_state: 'running',
  generation: 4,
  observed_generation: 4,
  on_stop: 'release',
  held: false,
  on_node_loss: 'wait',
  on_node_reboot: 'restart',
  simulated: true,
  price_per_hour_micros: 2_506_500,
  currency: 'USD',
  created_by: 'usr_01k3zq8h2mfw4v8y0c6d9r2t5x',
  created_at: ago(190),
  state_at: ago(20),
})

const gpu = {
  gpu_count: 1,
  gpu_model: 'h100-80gb',
  gpu_model_name: 'H100 80 GB',
  gpu_mode: 'whole',
  gpu_profile: 'whole',
  gpu_memory_mib: 81559,
}

const volume = (role, used_mib) => ({
  id: 'vol_01k3zq8h2mfw4v8y0c6d9r2t5x',
  role,
  size_mib: 51200,
  used_mib,
  state: 'present',
})

const vm = (project, more) => ({
  ...base(project),
  ...gpu,
  name: 'sim-lab-1',
  kind: 'vm',
  image: 'debian-12-vm',
  flavor: 'h100',
  ssh_keys: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0yTl0R3bV0o1q2w3e4r5t6y7u8i9o0p1a2s3d4f5g6 linh@studio'],
  volumes: [volume('root', 14_336)],
  ...more,
})

const notebook = (project, more) => ({
  ...base(project),
  ...gpu,
  gpu_mode: 'mig',
  gpu_profile: '1g',
  gpu_profile_name: '1g.10gb',
  gpu_memory_mib: 9856,
  price_per_hour_micros: 416_500,
  name: 'notebook-1',
  kind: 'notebook',
  image: 'jupyter',
  flavor: 'h100-1g',
  volumes: [volume('home', 47_104)],
  ...more,
})

/** instances are by the name of the picture. */
export const instances = {
  'vm-running': (p) => vm(p, { state: 'running', address: '10.88.0.12', started_at: ago(20) }),
  'vm-held': (p) => vm(p, { state: 'stopped', desired_state: 'stopped', held: true, on_stop: 'hold' }),
  'vm-queued': (p) =>
    vm(p, {
      state: 'queued',
      queue_place: 2,
      reasons: [
        { reason: 'gpu_busy', count: 1 },
        { reason: 'volume_elsewhere', count: 11 },
      ],
    }),
  'vm-lost': (p) =>
    vm(p, { state: 'running', reason: 'node_lost', message: 'its node has not been heard of' }),
  'notebook-idle': (p) =>
    notebook(p, { state: 'running', idle_since: ago(52), idle_stop_at: ago(-8), started_at: ago(120) }),
}

const life = (verbs) =>
  verbs.map(([verb, minutes, data], n) => ({
    id: `evt_${n}`,
    resource: 'instance',
    resource_id: 'i',
    seq: n + 1,
    verb,
    message: verb,
    at: ago(minutes),
    data,
  }))

/** stageInstance shows one of them at its address. */
export async function stageInstance(page, project, name) {
  const i = instances[name](project)
  const events = life([
    ['created', 190],
    ['placed', 188],
    ['running', 186],
    ['stopping', 90],
    ['stopped', 89, { held: true }],
    ...(i.state === 'stopped'
      ? []
      : [
          ['starting', 40],
          ['running', 38],
        ]),
  ])
  const at = `**/v1/projects/${project}/instances/${i.name}`
  await page.route(at, (r) => json(r, i))
  await page.route(`${at}/events?*`, (r) => json(r, { items: events }))
  return `/projects/${project}/instances/${i.name}`
}

/** stageList puts all of them into the list. */
export async function stageList(page, project) {
  await page.route(`**/v1/projects/${project}/instances?*`, async (r) => {
    const items = Object.entries(instances).map(([name, make], n) => ({
      ...make(project),
      id: `inst_${n}`,
      name,
    }))
    await json(r, { items })
  })
  return `/projects/${project}/instances`
}

const models = [
  ['h100-80gb', 'H100 80 GB', 'mig8', 8],
  ['a100-80gb', 'A100 80 GB', 'mig8', 8],
  ['a30', 'A30', 'mig4', 4],
  ['b200', 'B200', 'whole', 8],
]
const tenants = ['vision', 'speech', 'robotics', 'acme', 'protein', 'weather']

/** fleetOf makes a fleet of so many simulated nodes, each with what a real answer has. */
export function fleetOf(count) {
  let seed = 7
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return seed / 2_147_483_648
  }
  return Array.from({ length: count }, (_, n) => {
    const [model, model_name, geometry, cards] = models[n % models.length]
    const name = `sim-${String(n + 1).padStart(3, '0')}`
    const state = n % 41 === 6 ? 'lost' : n % 29 === 4 ? 'late' : 'ready'
    const gpus = Array.from({ length: cards }, (_, index) => {
      const mode = geometry === 'whole' || index % 2 === 0 ? 'whole' : 'mig'
      const slots = geometry === 'mig4' ? 4 : 8
      const claims = []
      const claim = (profile, profile_name, slot_start, slot_end) => {
        const organisation = tenants[Math.floor(random() * tenants.length)]
        claims.push({
          gpu_id: `gpu_${n}_${index}`,
          mode,
          profile,
          profile_name,
          slot_start,
          slot_end,
          instance_id: `inst_${n}_${index}_${slot_start}`,
          instance: `${organisation}-${n}`,
          organisation,
          simulated: true,
          created_at: ago(60),
        })
      }
      if (mode === 'whole' && random() < 0.6) claim('whole', 'whole', 0, 8)
      else if (mode === 'mig')
        for (let at = 0; at < slots - 1; at++) if (random() < 0.5) claim('1g', '1g', at, at + 1)
      return {
        id: `gpu_${n}_${index}`,
        node: name,
        node_id: `node_${n}`,
        uuid: `GPU-SIM-${n}-${index}`,
        pci_address: `0000:${index}:00.0`,
        index,
        model,
        model_name,
        geometry: geometry === 'whole' ? 'mig8' : geometry,
        mode,
        state: n % 17 === 3 && index === 1 ? 'quarantined' : 'ready',
        memory_mib: 81_559,
        numa_node: 0,
        nvlink: [],
        simulated: true,
        slots,
        claims,
        free: [],
        modes: [],
        companions: [],
        bundle: [],
        profiles: [],
        vgpu_types: [],
        slices: [],
        missing: [],
        changing: false,
        checking: false,
      }
    })
    return {
      id: `node_${n}`,
      name,
      pool: 'simulated',
      state,
      drained: n % 23 === 9,
      simulated: true,
      vcpu: 128,
      memory_mib: 2_097_152,
      cpu_overcommit: 4,
      used_vcpu: 96,
      used_memory_mib: 1_048_576,
      agent_version: 'development',
      generation: 12,
      ack_generation: 12,
      last_seen_at: ago(state === 'ready' ? 0 : state === 'late' ? 1 : 12),
      created_at: ago(6000),
      labels: { rack: `r${Math.floor(n / 16) + 1}`, zone: n % 2 ? 'b' : 'a' },
      kinds: ['container', 'vm', 'notebook'],
      watchdog: n % 5 !== 0,
      ...(state === 'lost' && n % 2 === 0 ? { fenced_at: ago(8), fenced_by: 'watchdog' } : {}),
      orphans:
        n === 6
          ? [
              {
                driver: 'containerd',
                id: 'inst_01k3zq8h2mfw4v8y0c6d9r2t5x.3',
                what: 'a container that ran before the last restore',
              },
            ]
          : [],
      excluded: [],
      gpus,
    }
  })
}

/** stageFleet shows that fleet beside what is really there. */
export async function stageFleet(page, count) {
  const nodes = fleetOf(count)
  await page.route('**/v1/nodes?*', async (r) => {
    const real = new URL(r.request().url()).searchParams.has('page_token')
      ? { items: [] }
      : await (await r.fetch()).json()
    await json(r, { items: [...real.items.filter((n) => !n.simulated), ...nodes] })
  })
  const lost = nodes[6] ?? nodes[0]
  await page.route(`**/v1/nodes/${lost.name}`, (r) => json(r, lost))
  await page.route(`**/v1/nodes/${lost.name}/stays`, (r) =>
    json(r, {
      items: [
        {
          instance_id: 'inst_1',
          instance: 'train-7',
          org: 'vision',
          kind: 'container',
          state: 'running',
          reason: 'running',
          message: 'it may still run; set to start elsewhere, it goes once the node is fenced',
        },
        {
          instance_id: 'inst_2',
          instance: 'lab-1',
          org: 'speech',
          volume_id: 'vol_2',
          kind: 'vm',
          state: 'stopped',
          reason: 'volume',
          message: 'its disk lies here; it goes when its owner deletes the instance',
        },
        {
          instance_id: 'inst_3',
          instance: 'lab-2',
          org: 'speech',
          kind: 'vm',
          state: 'stopped',
          reason: 'held',
          message: 'its owner holds its GPU while it is stopped',
        },
      ],
    }),
  )
  await page.route('**/v1/alarms?*', (r) =>
    json(r, {
      items: [
        {
          id: 'alm_1',
          key: 'node_lost',
          severity: 'critical',
          state: 'open',
          subject: lost.id,
          message: `${lost.name} has not been heard of for 12 min; 3 instances on it may still run`,
          opened_at: ago(7),
        },
        {
          id: 'alm_2',
          key: 'stray',
          severity: 'warning',
          state: 'open',
          subject: lost.id,
          message: `${lost.name} runs a container that nobody assigned; it was left as it is`,
          opened_at: ago(30),
        },
        {
          id: 'alm_3',
          key: 'gpu',
          severity: 'critical',
          state: 'acknowledged',
          subject: nodes[3]?.id ?? '',
          message: `GPU 1 of ${nodes[3]?.name} fell off the bus (XID 79) and is out of service`,
          opened_at: ago(300),
          acknowledged_at: ago(200),
        },
      ],
    }),
  )
  return { fleet: '/fleet', alarms: '/fleet/alarms', lost: `/fleet/nodes/${lost.name}` }
}
