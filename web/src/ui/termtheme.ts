/** terminalColours reads the theme for xterm, which can't read oklch: a canvas turns any colour into one that it can. */
export function terminalColours() {
  const css = getComputedStyle(document.documentElement)
  const v = (name: string) => css.getPropertyValue(name).trim()
  const ctx = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const rgb = (c: string) => {
    if (!ctx) return '#1b1917'
    ctx.fillStyle = c
    ctx.fillRect(0, 0, 1, 1)
    const [r = 0, g = 0, b = 0] = ctx.getImageData(0, 0, 1, 1).data
    return `#${[r, g, b].map((n) => n.toString(16).padStart(2, '0')).join('')}`
  }
  return {
    background: rgb(v('--term-bg')),
    foreground: rgb(v('--term-fg')),
    cursor: rgb(v('--accent')),
    selectionBackground: '#8a6a4f88',
  }
}
