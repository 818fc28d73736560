import { expect, test } from 'vitest'
import { figureWords, gpuShort, gpuWords } from './shape.ts'

const h100 = {
  gpu_count: 1,
  gpu_model: 'h100-80gb',
  gpu_model_name: 'H100 80 GB',
  vcpu: 8,
  memory_mib: 65536,
}
const mig = { ...h100, gpu_mode: 'mig', gpu_profile: '1g', gpu_profile_name: '1g.10gb' }

test('a part of a GPU is not called the whole of it', () => {
  expect(gpuWords({ ...h100, gpu_mode: 'whole' })).toBe('H100 80 GB')
  expect(gpuWords(mig)).toBe('1g.10gb of H100 80 GB')
  expect(gpuWords({ ...mig, gpu_mode: 'vgpu' })).toBe('1g.10gb vGPU of H100 80 GB')
  expect(gpuShort({ ...h100, gpu_mode: 'vgpu', gpu_profile: 'vgpu4', gpu_profile_name: '1/4 vGPU' })).toBe(
    '1/4 vGPU · H100 80 GB',
  )
})

test('a slice says its memory and its SMs, of all that one gets', () => {
  expect(figureWords({ ...mig, gpu_memory_mib: 9728, gpu_sms: 16 })).toBe('9.5 GiB GPU memory, 16 SMs')
  expect(figureWords({ ...mig, gpu_count: 2, gpu_memory_mib: 9728, gpu_sms: 16 })).toBe(
    '19 GiB GPU memory, 32 SMs',
  )
  expect(figureWords(h100)).toBe('')
})
