import { formatMiB } from './format.ts'

type Shape = {
  gpu_count: number
  gpu_model?: string
  gpu_model_name?: string
  gpu_mode?: string
  gpu_profile?: string
  gpu_profile_name?: string
  gpu_memory_mib?: number
  gpu_sms?: number
  vcpu: number
  memory_mib: number
}

/** gpuWords says what of a GPU a shape takes: "1g.10gb of H100 80 GB", "2 × A100 40 GB", "none". */
export function gpuWords(s: Shape): string {
  if (!s.gpu_count) return 'No GPU'
  const model = s.gpu_model_name || s.gpu_model || 'GPU'
  const times = s.gpu_count > 1 ? `${s.gpu_count} × ` : ''
  const part = partOf(s)
  return part ? `${times}${part} of ${model}` : `${times}${model}`
}

/** partOf is what of a card one has, in its own name; empty: the whole card. */
function partOf(s: Shape): string {
  if (!s.gpu_mode || s.gpu_mode === 'whole') return ''
  const name = s.gpu_profile_name || s.gpu_profile || ''
  return s.gpu_mode === 'vgpu' && !name.endsWith('vGPU') ? `${name} vGPU` : name
}

/** figuresOf is what there is of its GPUs to work with, in all; empty: nobody told. */
export const figuresOf = (s: Shape) => ({
  memory: s.gpu_memory_mib ? formatMiB(s.gpu_memory_mib * s.gpu_count) : '',
  sms: s.gpu_sms ? `${s.gpu_sms * s.gpu_count} SMs` : '',
})

/** figureWords says it in a line: "9.5 GiB GPU memory, 16 SMs". */
export function figureWords(s: Shape): string {
  const { memory, sms } = figuresOf(s)
  return [memory && `${memory} GPU memory`, sms].filter(Boolean).join(', ')
}

/** gpuShort fits a table cell: "1g.10gb · H100 80 GB". */
export function gpuShort(s: Shape): string {
  if (!s.gpu_count) return '–'
  const model = s.gpu_model_name || s.gpu_model || 'GPU'
  const times = s.gpu_count > 1 ? `${s.gpu_count} × ` : ''
  const part = partOf(s)
  return part ? `${times}${part} · ${model}` : `${times}${model}`
}

export const hostWords = (s: Shape) => `${s.vcpu} vCPU · ${formatMiB(s.memory_mib)}`
