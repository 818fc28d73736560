/** The manual's table of contents; each page is web/docs/<page>.md. */
export const docPages = [
  { page: 'getting-started', title: 'Getting started', part: 'For users' },
  { page: 'instances', title: 'Instances and GPU slices', part: 'For users' },
  { page: 'notebooks', title: 'Notebooks', part: 'For users' },
  { page: 'ports', title: 'Consoles, ports and web servers', part: 'For users' },
  { page: 'images', title: 'Images and the registry', part: 'For users' },
  { page: 'cli', title: 'Command line', part: 'For users' },
  { page: 'tokens', title: 'API tokens', part: 'For users' },
  { page: 'usage', title: 'Usage and prices', part: 'For users' },
  { page: 'install', title: 'Installation', part: 'For operators' },
  { page: 'nodes', title: 'Nodes and GPUs', part: 'For operators' },
  { page: 'metrics', title: 'Metrics and alerts', part: 'For operators' },
  { page: 'simulation', title: 'Simulated cards and nodes', part: 'For operators' },
  { page: 'networking', title: 'Networking and isolation', part: 'For operators' },
  { page: 'ha', title: 'High availability', part: 'For operators' },
  { page: 'backups', title: 'Backups: what is where', part: 'For operators' },
  { page: 'troubleshooting', title: 'Troubleshooting', part: 'For operators' },
] as const
