/** What one types as X11 key symbols, for a screen that has no clipboard of its own. */
export type Key = { keysym: number; code: string }

const named: Record<string, Key> = {
  '\n': { keysym: 0xff0d, code: 'Enter' },
  '\t': { keysym: 0xff09, code: 'Tab' },
}

/** keysOf leaves out what has no key, such as the carriage returns of Windows' line ends. */
export function keysOf(text: string): Key[] {
  const keys: Key[] = []
  for (const c of text) {
    const point = c.codePointAt(0) ?? 0
    const known = named[c]
    if (known) keys.push(known)
    else if (point < 0x20 || point === 0x7f) continue
    // Latin 1 is itself; everything else is its Unicode number in the X11 range for it
    else keys.push({ keysym: point <= 0xff ? point : 0x0100_0000 + point, code: '' })
  }
  return keys
}
