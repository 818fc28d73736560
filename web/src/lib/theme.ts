import { useSyncExternalStore } from 'react'

export type ThemeChoice = 'system' | 'light' | 'dark'

const key = 'tenon.theme'
const dark = matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()

function read(): ThemeChoice {
  try {
    const v = localStorage.getItem(key)
    return v === 'light' || v === 'dark' ? v : 'system'
  } catch {
    return 'system' // storage is blocked: the choice lasts for this page
  }
}

let choice = read()

function apply() {
  const isDark = choice === 'dark' || (choice === 'system' && dark.matches)
  document.documentElement.dataset.theme = isDark ? 'dark' : 'light'
  for (const l of listeners) l()
}

dark.addEventListener('change', apply)

export function setTheme(next: ThemeChoice) {
  choice = next
  try {
    localStorage.setItem(key, next)
  } catch {
    // not remembered, still applied
  }
  apply()
}

function subscribe(l: () => void) {
  listeners.add(l)
  return () => listeners.delete(l)
}

export const useThemeChoice = () => useSyncExternalStore(subscribe, () => choice)

/** useTheme gives what is shown now, for canvases that can't read CSS by themselves. */
export const useTheme = () =>
  useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme ?? 'light')
