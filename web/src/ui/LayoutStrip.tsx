import { cx } from './cx.ts'

export type StripPlace = { start: number; end: number; label: string; kind: 'fixed' | 'missing' | 'foreign' }

const looks: Record<StripPlace['kind'], string> = {
  fixed: 'bg-accent-wash text-fg [box-shadow:inset_0_0_0_1px_var(--accent)]',
  missing: 'text-red [box-shadow:inset_0_0_0_1px_var(--red)]',
  foreign: 'bg-sunken text-fg2 [box-shadow:inset_0_0_0_1px_var(--line-strong)]',
}

const stripes = 'repeating-linear-gradient(-45deg, var(--red-wash) 0 6px, transparent 6px 12px)'

/** LayoutStrip draws where a card has its slices; cells that no slice takes are empty. */
export function LayoutStrip({
  cells,
  places,
  label,
}: {
  cells: number
  places: readonly StripPlace[]
  label: string
}) {
  const words = places.map((p) => `${p.label} at ${p.start}${p.kind === 'fixed' ? '' : ` (${p.kind})`}`)
  return (
    <>
      <div
        role="img"
        aria-label={`${label}: ${words.join(', ') || 'none'}`}
        className="grid h-8 gap-px"
        style={{ gridTemplateColumns: `repeat(${cells}, minmax(0, 1fr))` }}
      >
        {Array.from({ length: cells }, (_, c) => c).map((c) => {
          const p = places.find((x) => x.start <= c && c < x.end)
          if (!p)
            return (
              <span
                key={c}
                className="rounded-[3px] [box-shadow:inset_0_0_0_1px_var(--line)]"
                aria-hidden="true"
              />
            )
          if (p.start !== c) return null
          return (
            <span
              key={c}
              className={cx('@container min-w-0 overflow-hidden rounded-[3px]', looks[p.kind])}
              style={{
                gridColumn: `${p.start + 1} / ${p.end + 1}`,
                ...(p.kind === 'missing' && { backgroundImage: stripes }),
              }}
            >
              <span className="hidden truncate px-1.5 text-[11px] leading-8 font-medium @min-[60px]:block">
                {p.label}
              </span>
            </span>
          )
        })}
      </div>
      {/* its parts are too narrow for their names there */}
      {words.length > 0 && (
        <p aria-hidden="true" className="mt-1.5 text-12 text-fg2 sm:hidden">
          {words.join(', ')}
        </p>
      )}
    </>
  )
}
