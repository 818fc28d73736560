import { formatMiB } from './format.ts'

type Shape = {
  gpu_count: number
  gpu_model?: string
  gpu_model_name?: string
  gpu_mode?: string
  gpu_profile?: string
  gpu_profile_name?: string
  vcpu: number
  memory_mib: number
}

/** gpuWords says what of a GPU a shape takes: "1g.10gb of H100 80 GB", "2 × A100 40 GB", "none". */
export function gpuWords(s: Shape): string {
  if (!s.gpu_count) return 'No GPU'
  const model = s.gpu_model_name || s.gpu_model || 'GPU'
  const times = s.gpu_count > 1 ? `${s.gpu_count} × ` : ''
  if (s.gpu_mode === 'mig') return `${times}${s.gpu_profile_name || s.gpu_profile} of ${model}`
  return `${times}${model}`
}

/** gpuShort fits a table cell: "1g.10gb · H100 80 GB". */
export function gpuShort(s: Shape): string {
  if (!s.gpu_count) return '–'
  const model = s.gpu_model_name || s.gpu_model || 'GPU'
  const times = s.gpu_count > 1 ? `${s.gpu_count} × ` : ''
  return s.gpu_mode === 'mig'
    ? `${times}${s.gpu_profile_name || s.gpu_profile} · ${model}`
    : `${times}${model}`
}

export const hostWords = (s: Shape) => `${s.vcpu} vCPU · ${formatMiB(s.memory_mib)}`
