import type { Image } from '~/api/offer.ts'
import type { Kind } from '~/lib/createform.ts'
import { kindWord } from '~/lib/instancestate.ts'
import { ChoiceCard } from '~/ui/ChoiceCard.tsx'
import { Icon, type IconName } from '~/ui/Icon.tsx'

const kinds: readonly { kind: Kind; icon: IconName; words: string }[] = [
  { kind: 'container', icon: 'images', words: 'Starts in seconds from an OCI image. A slice or whole GPUs.' },
  { kind: 'notebook', icon: 'docs', words: 'Jupyter in the browser, with a home folder that is kept.' },
  { kind: 'vm', icon: 'system', words: 'A machine of its own: root, SSH, a disk that is kept. Whole GPUs.' },
]

/** KindPicker chooses what it runs as; a kind that has no image yet says so. */
export function KindPicker({
  images,
  value,
  onChange,
}: {
  images: readonly Image[] | undefined
  value: Kind
  onChange: (kind: Kind) => void
}) {
  return (
    <div className="grid gap-2 sm:grid-cols-3">
      {kinds.map(({ kind, icon, words }) => {
        const none = images && !images.some((i) => i.kind === kind)
        return (
          <ChoiceCard
            key={kind}
            name="kind"
            value={kind}
            checked={value === kind}
            onChange={() => onChange(kind)}
            reason={none && kind !== 'container' ? 'No image of this kind is offered yet' : null}
          >
            <span className="flex items-center gap-2 font-medium">
              <Icon name={icon} size={14} />
              {kindWord[kind]}
            </span>
            <span className="text-12 text-fg2">
              {none && kind !== 'container' ? 'No image of this kind is offered yet.' : words}
            </span>
          </ChoiceCard>
        )
      })}
    </div>
  )
}
