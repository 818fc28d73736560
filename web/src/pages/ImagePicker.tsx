import { Link } from '@tanstack/react-router'
import type { Image } from '~/api/offer.ts'
import { formatBytes } from '~/lib/format.ts'
import { ChoiceCard } from '~/ui/ChoiceCard.tsx'
import { Bone, Notice } from '~/ui/State.tsx'
import { Tag } from '~/ui/StatusPill.tsx'

export function ImagePicker({
  images,
  value,
  onChange,
  error,
  project,
  kind,
}: {
  images: readonly Image[] | undefined
  value: string
  onChange: (name: string) => void
  error: string | null
  project: string
  kind: string
}) {
  if (images?.length === 0)
    return (
      <Notice tone="amber">
        No image of the kind “{kind}” is offered yet.{' '}
        <Link to="/projects/$project/images" params={{ project }} className="link">
          Add one
        </Link>{' '}
        from a registry first.
      </Notice>
    )
  return (
    <>
      <div className="grid gap-2 sm:grid-cols-2 xl:grid-cols-3">
        {images
          ? images.map((i) => (
              <ChoiceCard
                key={i.id}
                name="image"
                value={i.name}
                checked={i.name === value}
                onChange={onChange}
              >
                <span className="flex items-center gap-2">
                  <span className="min-w-0 truncate font-medium">{i.name}</span>
                  {!i.offered && <Tag title="Your organisation’s own">own</Tag>}
                </span>
                <span className="line-clamp-2 text-12 text-fg2">{i.description || i.ref}</span>
                <span className="text-12 text-fg3">{formatBytes(i.size_bytes)}</span>
              </ChoiceCard>
            ))
          : [0, 1].map((n) => <Bone key={n} className="h-[84px] w-full rounded-box" />)}
      </div>
      {error && (
        <p role="alert" className="mt-1 text-12 text-red">
          {error}
        </p>
      )}
    </>
  )
}
