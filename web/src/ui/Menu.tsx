import { Menu as Base } from '@base-ui/react/menu'
import type { ReactElement, ReactNode } from 'react'
import { cx } from './cx.ts'
import { Icon, type IconName } from './Icon.tsx'

export type MenuItem =
  | {
      kind?: 'item'
      label: ReactNode
      icon?: IconName
      onSelect: () => void
      reason?: string | null
      danger?: boolean
      checked?: boolean
      note?: ReactNode
    }
  | { kind: 'line' }
  | { kind: 'heading'; label: string }

/** Menu opens on click, walks with arrows and letters, and says why an item is off. */
export function Menu({
  trigger,
  items,
  align = 'end',
  label,
}: {
  trigger: ReactElement
  items: readonly MenuItem[]
  align?: 'start' | 'end'
  label?: string
}) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner sideOffset={4} align={align} className="z-50">
          <Base.Popup
            aria-label={label}
            className="max-h-[60dvh] min-w-44 max-w-80 overflow-y-auto rounded-box border border-line-strong bg-raised p-1 outline-none"
          >
            {items.map((item, i) => {
              const key = `${item.kind ?? 'item'}-${i}`
              if (item.kind === 'line') return <Base.Separator key={key} className="my-1 h-px bg-line" />
              if (item.kind === 'heading')
                return (
                  <div key={key} className="px-2 pt-1.5 pb-1 text-12 text-fg3">
                    {item.label}
                  </div>
                )
              return (
                <Base.Item
                  key={key}
                  disabled={Boolean(item.reason)}
                  onClick={item.onSelect}
                  className={cx(
                    'flex min-h-8 cursor-default pointer-coarse:min-h-11 items-center gap-2 rounded-[5px] px-2 py-1 text-13 outline-none select-none data-[highlighted]:bg-sunken',
                    item.danger && !item.reason && 'text-red',
                    item.reason && 'text-fg3',
                  )}
                >
                  {item.icon && <Icon name={item.icon} size={14} />}
                  <span className="min-w-0 flex-1">
                    <span className="block truncate">{item.label}</span>
                    {item.reason && <span className="block text-12">{item.reason}</span>}
                  </span>
                  {item.note && <span className="text-12 text-fg3">{item.note}</span>}
                  {item.checked && <Icon name="check" size={14} />}
                </Base.Item>
              )
            })}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}
