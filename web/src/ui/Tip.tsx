import { Tooltip } from '@base-ui/react/tooltip'
import type { ReactElement } from 'react'

/** Tip shows a short text on hover and focus, and describes its control with it. */
export function Tip({ text, children }: { text: string; children: ReactElement }) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger delay={250} render={children} aria-description={text} />
      <Tooltip.Portal>
        <Tooltip.Positioner sideOffset={6} className="z-50">
          <Tooltip.Popup className="max-w-72 rounded-control border border-line-strong bg-raised px-2 py-1 text-12 text-fg">
            {text}
          </Tooltip.Popup>
        </Tooltip.Positioner>
      </Tooltip.Portal>
    </Tooltip.Root>
  )
}
