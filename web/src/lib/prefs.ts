/** Small things that this browser remembers; a blocked storage forgets them quietly. */
export function recall(key: string): string | null {
  try {
    return localStorage.getItem(`tenon.${key}`)
  } catch {
    return null
  }
}

export function remember(key: string, value: string) {
  try {
    localStorage.setItem(`tenon.${key}`, value)
  } catch {
    // not remembered
  }
}
