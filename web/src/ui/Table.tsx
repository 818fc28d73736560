import type { ReactNode } from 'react'
import { cx } from './cx.ts'
import { Bone } from './State.tsx'

/** Column describes one column once, at module scope. */
export type Column<T> = {
  id: string
  header: string
  cell: (row: T) => ReactNode
  align?: 'right'
  /** Left out on screens narrower than this; the row's own page has it all. */
  from?: 'sm' | 'md' | 'lg' | 'xl'
  /** Takes the space that is left and truncates. */
  grow?: boolean
  /** Takes it on phones only, where other columns are left out. */
  growNarrow?: boolean
  hideHeader?: boolean
}

const fromClass = {
  sm: 'hidden sm:table-cell',
  md: 'hidden md:table-cell',
  lg: 'hidden lg:table-cell',
  xl: 'hidden xl:table-cell',
} as const

type Selection = {
  selected: ReadonlySet<string>
  onChange: (next: Set<string>) => void
  name: (key: string) => string
}

/** Table has rows of 36 px (28 compact). It becomes a skeleton of itself while it loads. */
export function Table<T>({
  label,
  columns,
  rows,
  rowKey,
  compact,
  selection,
  skeletonRows = 5,
}: {
  label: string
  columns: readonly Column<T>[]
  rows: readonly T[] | undefined
  rowKey: (row: T) => string
  compact?: boolean
  selection?: Selection
  skeletonRows?: number
}) {
  const height = compact ? 'h-7' : 'h-9'
  const cellClass = (c: Column<T>) =>
    cx(
      height,
      'border-b border-line px-3 first:pl-4 last:pr-4',
      c.align === 'right' && 'text-right tabular-nums',
      c.grow ? 'w-full max-w-0 truncate' : 'whitespace-nowrap',
      c.growNarrow && 'max-sm:w-full max-sm:max-w-0 max-sm:py-1.5',
      c.from && fromClass[c.from],
    )
  const keys = rows?.map(rowKey) ?? []
  const all = keys.length > 0 && keys.every((k) => selection?.selected.has(k))
  const some = keys.some((k) => selection?.selected.has(k))
  return (
    <div className="overflow-x-auto">
      <table aria-label={label} aria-busy={!rows || undefined} className="w-full border-collapse text-13">
        <thead>
          <tr>
            {selection && (
              <th scope="col" className={cx(height, 'w-9 border-b border-line pl-4')}>
                <input
                  type="checkbox"
                  aria-label="Select all"
                  checked={all}
                  ref={(el) => {
                    if (el) el.indeterminate = some && !all
                  }}
                  onChange={() => selection.onChange(new Set(all ? [] : keys))}
                  className="block accent-[var(--accent)]"
                />
              </th>
            )}
            {columns.map((c) => (
              <th
                key={c.id}
                scope="col"
                className={cx(cellClass(c), 'text-left text-12 font-medium text-fg3')}
              >
                {c.hideHeader ? <span className="sr-only">{c.header}</span> : c.header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="[&>tr:last-child>td]:border-b-0">
          {rows
            ? rows.map((row) => {
                const key = rowKey(row)
                const on = selection?.selected.has(key)
                return (
                  <tr key={key} className={cx('quick hover:bg-sunken/60', on && 'bg-accent-wash')}>
                    {selection && (
                      <td className={cx(height, 'border-b border-line pl-4')}>
                        <input
                          type="checkbox"
                          aria-label={`Select ${selection.name(key)}`}
                          checked={on}
                          onChange={() => {
                            const next = new Set(selection.selected)
                            if (!next.delete(key)) next.add(key)
                            selection.onChange(next)
                          }}
                          className="block accent-[var(--accent)]"
                        />
                      </td>
                    )}
                    {columns.map((c) => (
                      <td key={c.id} className={cellClass(c)}>
                        {c.cell(row)}
                      </td>
                    ))}
                  </tr>
                )
              })
            : Array.from({ length: skeletonRows }, (_, i) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: bones have no identity
                <tr key={i}>
                  {selection && <td className={cx(height, 'border-b border-line pl-4')} />}
                  {columns.map((c) => (
                    <td key={c.id} className={cellClass(c)}>
                      <Bone className={c.grow ? 'w-2/3' : c.align === 'right' ? 'ml-auto w-10' : 'w-16'} />
                    </td>
                  ))}
                </tr>
              ))}
        </tbody>
      </table>
    </div>
  )
}
