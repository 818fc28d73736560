/** Mark is a mortise and the tenon that fits it, readable at 16 px. */
export function Mark({ size = 20 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" className="shrink-0">
      <path fill="currentColor" d="M1 2h7v3.500h-2.500v5h2.500v3.500h-7z" />
      <path fill="var(--accent)" d="M9.500 2h5.500v12h-5.500v-3h-2.500v-6h2.500z" />
    </svg>
  )
}
