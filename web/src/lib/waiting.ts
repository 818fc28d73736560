import { formatNumber, plural, sentence } from './format.ts'

export type Reason = { reason: string; count: number; message?: string }
export type WaitingLine = { reason: string; text: string; help?: string }

type Words = {
  /** Short, after "Waiting: ", with its count. */
  short: (n: number) => string
  /** What would end it. */
  help?: string
  /** Counts what could never serve this shape: told last, and not in the short form beside others. */
  aside?: true
  /** What it says has figures of its own: the server’s words, without their count, are shown. */
  said?: true
}

const gpus = (n: number) => plural(n, 'GPU')
const nodes = (n: number) => plural(n, 'node')
const are = (n: number) => (n === 1 ? 'is' : 'are')
const have = (n: number) => (n === 1 ? 'has' : 'have')

const words: Record<string, Words> = {
  behind: {
    short: (n) => `${plural(n, 'instance')} ahead in the queue`,
    help: 'It starts after them, in order.',
  },
  pool_empty: {
    short: () => 'its pool has no nodes',
    help: 'An operator adds a node to the pool.',
  },
  bad_shape: {
    short: () => 'no card can give this shape',
    help: 'Delete it, and choose another shape.',
  },
  not_for_kind: {
    short: () => 'a virtual machine can’t hold a slice of a GPU',
    help: 'Choose a container, a whole GPU, or a MIG-backed vGPU.',
  },
  gpu_busy: {
    short: (n) => `${gpus(n)} in use`,
    help: 'It starts when an instance there stops.',
  },
  gpu_fragmented: {
    short: (n) => `${gpus(n)} with room, but not in one piece`,
    help: 'It starts when a neighbouring slice is released. A smaller slice may start now.',
  },
  gpu_media: {
    short: (n) => `${gpus(n)} whose media engines are taken`,
    help: 'A slice without media engines may start now.',
  },
  gpu_not_ready: {
    short: (n) => `${gpus(n)} out of service`,
    help: 'A card out of service needs an operator.',
  },
  gpu_cleaning: { short: (n) => `${gpus(n)} being cleaned`, help: 'That takes seconds.' },
  gpu_needs_reset: {
    short: (n) => `${gpus(n)} that ${n === 1 ? 'waits' : 'wait'} for a reset`,
    help: 'It is reset once nothing of it is held.',
  },
  gpu_changing: {
    short: (n) => `${gpus(n)} being set up in another way`,
    help: 'That takes seconds once nothing of it is held.',
  },
  gpu_shares: {
    short: (n) => `${gpus(n)} in use`,
    help: 'It starts when enough is free again.',
  },
  gpu_layout: { short: (n) => `${gpus(n)} laid out without such a slice`, aside: true },
  gpu_not_for_vm: { short: (n) => `${gpus(n)} no VM can have`, aside: true },
  gpu_bundle: { short: (n) => `${gpus(n)} a VM gets only together with others`, aside: true },
  shares_not_for_vm: {
    short: () => 'a virtual machine can’t hold a share of a GPU',
    help: 'Choose a whole GPU, a vGPU, or a container.',
  },
  vgpu_for_vm: {
    short: () => 'only a virtual machine can hold a virtual GPU',
    help: 'Choose a whole GPU or a slice, or make it a virtual machine.',
  },
  node_vcpu: {
    short: (n) => `${nodes(n)} with too little vCPU left`,
    help: 'It starts when an instance there stops. A shape with less vCPU may start now.',
  },
  node_memory: {
    short: (n) => `${nodes(n)} with too little memory left`,
    help: 'It starts when an instance there stops. A shape with less memory may start now.',
  },
  node_few_gpus: {
    short: (n) => `${nodes(n)} with fewer free GPUs than asked`,
    help: 'It starts when enough GPUs of one node are free together.',
  },
  node_partition: {
    short: (n) => `${nodes(n)} where the free GPUs are no NVSwitch partition`,
    help: 'It starts when all GPUs of one partition are free. A VM with fewer GPUs may start now.',
  },
  node_partition_size: {
    short: (n) => `${nodes(n)} without NVSwitch partitions of as many GPUs`,
    said: true,
    help: 'Choose a VM with as many GPUs as a partition has.',
  },
  node_members: {
    short: (n) => `${nodes(n)} with room for a part of it`,
    help: 'It starts when there is room for all of it at once.',
  },
  node_not_ready: {
    short: (n) => `${nodes(n)} that ${n === 1 ? 'does' : 'do'} not answer`,
    help: 'They count again as soon as they answer.',
  },
  volume_elsewhere: {
    short: (n) => `${nodes(n)} that ${n === 1 ? 'does' : 'do'} not have its disk`,
    aside: true,
  },
  node_drained: {
    short: (n) => `${nodes(n)} that ${n === 1 ? 'takes' : 'take'} no new work`,
    help: 'An operator lets them take work again.',
  },
  node_no_gpu: { short: (n) => `${nodes(n)} without a GPU`, aside: true },
  gpu_model: { short: (n) => `${gpus(n)} ${are(n)} of another model`, aside: true },
  gpu_mode: { short: (n) => `${gpus(n)} ${are(n)} set up for another kind of share`, aside: true },
  gpu_profile: { short: (n) => `${gpus(n)} ${have(n)} no slice of this size`, aside: true },
}

const shortOf = (r: Reason) =>
  (words[r.reason]?.said && r.message?.replace(/^[^:]*: /, '')) ||
  (words[r.reason]?.short(r.count) ??
    (r.message || `${formatNumber(r.count)} × ${r.reason.replaceAll('_', ' ')}`))

/** waitingShort fits a table cell: "Waiting: 2 GPUs in use". */
export function waitingShort(reasons: readonly Reason[]): string {
  const real = reasons.filter((r) => !words[r.reason]?.aside)
  const said = real.length ? real : reasons
  return said.length ? `Waiting: ${said.map(shortOf).join(', ')}` : 'Waiting for a place'
}

/** waitingLines says each reason with its count and what would end it; what never could serve it comes last. */
export function waitingLines(reasons: readonly Reason[]): WaitingLine[] {
  const rank = (r: Reason) => (words[r.reason]?.aside ? 1 : 0)
  return [...reasons]
    .sort((a, b) => rank(a) - rank(b))
    .map((r) => ({ reason: r.reason, text: sentence(shortOf(r)), help: words[r.reason]?.help }))
}
