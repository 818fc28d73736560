/** tenantClass gives a tenant one of eight hues, the same on every page and after every reload. */
export function tenantClass(key: string): string {
  let h = 0x811c9dc5
  for (let i = 0; i < key.length; i++) h = Math.imul(h ^ key.charCodeAt(i), 0x01000193)
  h ^= h >>> 15
  return `tenant-${(h >>> 0) % 8}`
}

/** utilisationColour is the one sequential ramp, dark to bright, from 0 to 100 %. */
export function utilisationColour(percent: number): string {
  const t = Math.min(1, Math.max(0, percent / 100))
  const l = 0.3 + 0.56 * t
  const c = 0.05 + 0.11 * Math.sin(Math.PI * (0.15 + 0.6 * t))
  const h = 300 + 140 * t // violet through red to amber
  return `oklch(${l.toFixed(3)} ${c.toFixed(3)} ${(h % 360).toFixed(1)})`
}

/** inkOn picks the text colour for a place on the ramp. */
export const utilisationInk = (percent: number) =>
  percent > 55 ? 'oklch(0.2 0.03 60)' : 'oklch(0.97 0.01 60)'
