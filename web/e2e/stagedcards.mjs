/** Cards in states that a quiet cloud does not show, for looking at: each at the address of a real one. */
import { fleetOf } from './staged.mjs'

const ago = (minutes) => new Date(Date.now() - minutes * 60_000).toISOString()
const json = (route, body) => route.fulfill({ json: body })

const profiles = [
  ['1g', '1g.10gb', 1, 7],
  ['1g+me', '1g.10gb+me', 1, 1],
  ['1g2', '1g.20gb', 2, 4],
  ['2g', '2g.20gb', 2, 3],
  ['3g', '3g.40gb', 4, 2],
  ['4g', '4g.40gb', 4, 1],
  ['7g', '7g.80gb', 8, 1],
].map(([profile, profile_name, slots, max]) => ({ profile, profile_name, slots, max }))

const place = (profile, profile_name, slot_start, slot_end) => ({
  profile,
  profile_name,
  slot_start,
  slot_end,
})

const hold = (mode, instance, organisation, at) => ({
  ...at,
  gpu_id: 'gpu_0_0',
  model: 'h100-80gb',
  mode,
  instance_id: `inst_${instance}`,
  instance,
  organisation,
  simulated: true,
  created_at: ago(190),
})

const types = ['H100-4C', 'H100-8C', 'H100-10C', 'H100-20C', 'H100-40C', 'H100-80C'].map((t, n) => ({
  name: `NVIDIA ${t}`,
  id: String(900 + n),
  available: 4,
}))

/** cards are by the name of the picture. */
export const cards = {
  mig: {
    mode: 'mig',
    claims: [
      hold('mig', 'train-vision-transformer-large-patch16-384', 'vision', place('3g', '3g.40gb', 0, 4)),
      hold('mig', 'nb-linh', 'speech', place('1g', '1g.10gb', 4, 5)),
    ],
    wish: {
      mode: 'mig',
      layout: [
        place('3g', '3g.40gb', 0, 4),
        place('1g', '1g.10gb', 4, 5),
        place('1g', '1g.10gb', 5, 6),
        place('1g', '1g.10gb', 6, 7),
      ],
      wished_at: ago(9000),
    },
    missing: [place('1g', '1g.10gb', 6, 7)],
    free: [place('1g', '1g.10gb', 5, 6)],
  },
  vgpu: {
    mode: 'vgpu',
    geometry: 'vgpu4',
    slots: 4,
    claims: [hold('vgpu', 'lab-1', 'robotics', place('vgpu', '1/4 vGPU', 1, 2))],
    wish: { mode: 'vgpu', layout: [], vgpu_type: 'NVIDIA H100-20C', wished_at: ago(9000) },
    free: [0, 2, 3].map((n) => place('vgpu', '1/4 vGPU', n, n + 1)),
  },
  quarantined: {
    mode: 'whole',
    state: 'quarantined',
    reason: 'it has no way to be reset, so that nobody can tell whether what the last tenant left is gone',
  },
  missing: {
    mode: 'whole',
    state: 'missing',
    reason: 'its node no longer sees it at 0000:00:00.0',
  },
  changing: {
    mode: 'whole',
    changing: true,
    wish: {
      mode: 'mig',
      layout: [place('3g', '3g.40gb', 0, 4), place('3g', '3g.40gb', 4, 8)],
      wished_at: ago(2),
    },
    wish_reason: 'a process that the platform did not start (python3, 4711) uses it',
  },
}

const stays = [
  ['nb-linh', 'speech', '1g', '1g.10gb', 4, 5, 'mig', 2, 190, null],
  ['train-vision-transformer-large-patch16-384', 'vision', '3g', '3g.40gb', 0, 4, 'mig', 1, 190, null],
  ['lab-1', 'robotics', 'vgpu', '1/4 vGPU', 1, 2, 'vgpu', 1, 4000, 2000],
  ['old', 'acme', 'whole', 'whole', 0, 8, 'whole', 4, 9000, 8000],
].map(([instance, organisation, profile, profile_name, slot_start, slot_end, mode, epoch, from, to], n) => ({
  id: `stay_${n}`,
  gpu_id: 'gpu_0_0',
  instance_id: `inst_${n}`,
  instance,
  organisation,
  epoch,
  mode,
  profile,
  profile_name,
  slot_start,
  slot_end,
  from: ago(from),
  ...(to && { to: ago(to) }),
}))

/** stageCard shows one of them, and who is in the way of a change. */
export async function stageCard(page, name) {
  const [node] = fleetOf(1)
  const card = {
    ...node.gpus[0],
    modes: ['whole', 'mig', 'shared', 'vgpu'],
    profiles,
    vgpu_types: types,
    revision: 12,
    geometry: 'mig8',
    state: 'ready',
    claims: [],
    driver: 'nvidia',
    vendor: '10de',
    device: '2330',
    ...cards[name],
  }
  const at = `**/v1/gpus/${card.id}`
  await page.route(at, (r) => (r.request().method() === 'GET' ? json(r, card) : r.abort()))
  await page.route(`${at}?dry_run=true`, (r) =>
    card.claims.length
      ? r.fulfill({
          status: 409,
          json: {
            status: 409,
            code: 'gpu_in_use',
            title: 'Conflict',
            detail: 'GPU is in use',
            hint: 'drain the node and wait for them to end, or ask their owners to stop them',
            figures: {
              instances: card.claims.map((c) => ({
                id: c.instance_id,
                name: c.instance,
                organisation: c.organisation,
              })),
            },
          },
        })
      : json(r, { ...card, changing: true, wish: { ...r.request().postDataJSON(), layout: [] } }),
  )
  await page.route(`${at}/history?*`, (r) => json(r, { items: stays }))
  await page.route(`${at}/incidents`, (r) =>
    json(r, {
      items: [
        {
          id: 'inc_1',
          kind: 'fell_off_bus',
          xid: 79,
          action: 'out',
          message: 'GPU has fallen off the bus',
          at: ago(50),
          received_at: ago(50),
        },
        {
          id: 'inc_2',
          kind: 'xid',
          xid: 31,
          action: 'none',
          message: 'MMU fault of a program',
          instance_id: 'inst_1',
          at: ago(500),
          received_at: ago(500),
        },
      ],
    }),
  )
  await page.route(`**/v1/nodes/${node.name}`, (r) => json(r, node))
  return `/fleet/gpus/${card.id}`
}
