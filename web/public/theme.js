// Runs before the first paint, so that the remembered theme never flashes.
;(() => {
  let choice = 'system'
  try {
    choice = localStorage.getItem('tenon.theme') || 'system'
  } catch {
    // storage is blocked: follow the system
  }
  const dark = choice === 'dark' || (choice === 'system' && matchMedia('(prefers-color-scheme: dark)').matches)
  document.documentElement.dataset.theme = dark ? 'dark' : 'light'
})()
