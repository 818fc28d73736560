/** SliceStrip shows which cells of a card are one's own; what others hold is not told. */
export function SliceStrip({
  start,
  end,
  label,
  cells = 8,
}: {
  start: number
  end: number
  label: string
  cells?: number
}) {
  return (
    <div
      role="img"
      aria-label={`${label}: cells ${start} to ${end - 1} of ${cells}`}
      className="grid h-5 gap-px"
      style={{ gridTemplateColumns: `repeat(${cells}, minmax(0, 1fr))` }}
    >
      {Array.from({ length: cells }, (_, c) => c)
        .filter((c) => c <= start || c >= end)
        .map((c) =>
          c === start ? (
            <span
              key={c}
              className="@container overflow-hidden rounded-[3px] bg-accent text-on-accent"
              style={{ gridColumn: `${start + 1} / ${end + 1}` }}
            >
              <span className="hidden truncate px-1.5 text-[11px] leading-5 font-medium @min-[44px]:block">
                {label}
              </span>
            </span>
          ) : (
            <span key={c} className="rounded-[3px] bg-sunken" />
          ),
        )}
    </div>
  )
}
