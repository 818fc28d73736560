const paths = {
  instances: 'M2.500 3.500h11v4h-11zM2.500 8.500h11v4h-11zM5 5.500h.01M5 10.500h.01',
  images: 'M8 1.800l5.500 3v6.400l-5.500 3-5.500-3v-6.400zM2.500 4.800l5.500 3 5.500-3M8 7.800v6.400',
  usage: 'M2.500 13.500h11M4 11V8M8 11V3M12 11V6',
  tokens: 'M10.500 2.500a3 3 0 1 1-2.300 4.900l-5.700 5.600v-2.500h2v-2h2l1.100-1.100',
  fleet: 'M2 4h12v3h-12zM2 9h12v3h-12zM5 4v3M9 4v3M7 9v3',
  docs: 'M3 2.500h7l3 3v8h-10zM9.500 2.500v3.500h3.500M5.500 8.500h5M5.500 11h5',
  search: 'M7 2.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9zM10.300 10.300l3.200 3.200',
  plus: 'M8 3v10M3 8h10',
  check: 'M3 8.500l3.200 3.200 6.800-7.400',
  copy: 'M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3',
  close: 'M3.500 3.500l9 9M12.500 3.500l-9 9',
  more: 'M3.500 8h.01M8 8h.01M12.500 8h.01',
  chevron: 'M4.500 6.200l3.500 3.600 3.500-3.600',
  right: 'M6.200 4.500l3.600 3.500-3.600 3.500',
  sun: 'M8 5.200a2.800 2.800 0 1 1 0 5.600 2.800 2.800 0 0 1 0-5.600zM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.900M3.400 12.600l.9-.9M11.700 4.300l.9-.9',
  moon: 'M13.300 9.700a5.600 5.600 0 0 1-7-7 5.600 5.600 0 1 0 7 7z',
  system: 'M2 3h12v8h-12zM5.500 13.500h5M8 11v2.500',
  user: 'M8 2.500a2.600 2.600 0 1 1 0 5.200 2.600 2.600 0 0 1 0-5.200zM3 13.500c.4-2.700 2.300-4 5-4s4.600 1.300 5 4',
  menu: 'M2.500 4.500h11M2.500 8h11M2.500 11.500h11',
  warn: 'M8 2.500l6 11h-12zM8 6.500v3.200M8 11.600h.01',
  terminal: 'M2 3h12v10h-12zM4.500 6l2 2-2 2M8 10h3.500',
  download: 'M8 2.500v7.500M4.800 7l3.200 3.200 3.200-3.200M2.500 13.500h11',
  refresh: 'M13 8a5 5 0 1 1-1.600-3.700M13 2.500v2.500h-2.500',
  out: 'M9.500 2.500h4v11h-4M10 8h-7.500M5.500 5l-3 3 3 3',
  help: 'M8 1.800a6.200 6.200 0 1 1 0 12.400 6.200 6.200 0 0 1 0-12.400zM6.200 6.300c.2-2.300 3.800-2.200 3.700-.1 0 1.400-1.900 1.500-1.900 2.900M8 11.300h.01',
} as const

export type IconName = keyof typeof paths

/** Icon is decoration: what it means is always said in words too. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className="shrink-0"
    >
      <path d={paths[name]} />
    </svg>
  )
}
