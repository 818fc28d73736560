import type { ReactNode } from 'react'
import { tenantClass } from '~/lib/hue.ts'

/** TenantName is an organisation with its colour. */
export function TenantName({ name }: { name: string }) {
  return (
    <span className={`${tenantClass(name || 'unknown')} inline-flex min-w-0 items-center gap-2`}>
      <span aria-hidden="true" className="size-2.5 shrink-0 rounded-[3px] bg-[var(--tenant-edge)]" />
      <span className="truncate">{name || '–'}</span>
    </span>
  )
}

/** Holder is the first cell of a table of holds; on a phone it has under it what other columns have elsewhere. */
export function Holder({
  name,
  tenant,
  what,
  where,
  children,
}: {
  name: string
  tenant: string
  what: string
  where: string
  children?: ReactNode
}) {
  return (
    <>
      <span className="block truncate font-medium" title={name}>
        {name}
      </span>
      <span className="flex flex-wrap gap-x-3 text-12 leading-5 whitespace-normal text-fg2 sm:hidden">
        <TenantName name={tenant} />
        <span>
          {what}, {where}
        </span>
        {children}
      </span>
    </>
  )
}
