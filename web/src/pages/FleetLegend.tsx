import { tenantClass, utilisationColour } from '~/lib/hue.ts'
import type { Lens } from '~/ui/GPUBar.tsx'
import { StatusShape } from '~/ui/StatusPill.tsx'

/** FleetLegend says what the colours of the bars mean under a lens. */
export function FleetLegend({ lens, tenants }: { lens: Lens; tenants: readonly string[] }) {
  const box = 'size-2.5 shrink-0 rounded-[3px]'
  return (
    <ul aria-label="Legend" className="flex flex-wrap items-center gap-x-4 gap-y-1 text-12 text-fg2">
      {lens === 'tenant' &&
        tenants.slice(0, 8).map((t) => (
          <li key={t} className={`${tenantClass(t)} flex items-center gap-1.5`}>
            <span className={`${box} bg-[var(--tenant-edge)]`} aria-hidden="true" />
            {t}
          </li>
        ))}
      {lens === 'state' &&
        (['green', 'blue', 'red'] as const).map((t) => (
          <li key={t} className="flex items-center gap-1.5">
            <StatusShape tone={t} />
            {{ green: 'Card ready', blue: 'Being cleaned', red: 'Out of service' }[t]}
          </li>
        ))}
      {lens === 'utilisation' && (
        <li className="flex items-center gap-1.5">
          0 %
          <span
            aria-hidden="true"
            className="h-2.5 w-24 rounded-[3px]"
            style={{
              background: `linear-gradient(90deg, ${[0, 25, 50, 75, 100].map(utilisationColour).join(', ')})`,
            }}
          />
          100 %
        </li>
      )}
      <li className="flex items-center gap-1.5">
        <span aria-hidden="true" className={`${box} border border-line-strong`} /> Free
      </li>
      <li className="flex items-center gap-1.5">
        <span
          aria-hidden="true"
          className={`${box} bg-sunken bg-[repeating-linear-gradient(45deg,var(--hatch)_0_1px,transparent_1px_4px)]`}
        />
        Unusable fragment
      </li>
    </ul>
  )
}
