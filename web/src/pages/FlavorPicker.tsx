import { useState } from 'react'
import type { Flavor } from '~/api/offer.ts'
import { formatHourly } from '~/lib/format.ts'
import { inPool, smallestFor } from '~/lib/need.ts'
import { figureWords, gpuWords, hostWords } from '~/lib/shape.ts'
import { ChoiceCard } from '~/ui/ChoiceCard.tsx'
import { cx } from '~/ui/cx.ts'
import { TextField } from '~/ui/Field.tsx'
import { Segmented } from '~/ui/Segmented.tsx'
import { Bone, Notice } from '~/ui/State.tsx'
import { StatusShape, Tag } from '~/ui/StatusPill.tsx'

type How = 'need' | 'shape'

/** FlavorPicker chooses a shape from the list, or the smallest one that has the memory. */
export function FlavorPicker({
  flavors,
  value,
  onChange,
  error,
  refusal,
  simulated,
  refusedWord = 'not as a VM',
}: {
  flavors: readonly Flavor[] | undefined
  value: string
  onChange: (name: string) => void
  error: string | null
  /** Why a shape can't be had as this kind, or null. */
  refusal: (f: Flavor) => string | null
  /** Its pool is simulated: what is free there is counted apart. */
  simulated: boolean
  refusedWord?: string
}) {
  const [how, setHow] = useState<How>('shape')
  const [need, setNeed] = useState('8')
  const needMiB = Number.parseFloat(need) * 1024
  const can = flavors?.filter((f) => !refusal(f))
  const fits = can && needMiB > 0 ? smallestFor(can, needMiB, simulated) : []
  const choose = (next: How, amount: string) => {
    setHow(next)
    setNeed(amount)
    const best =
      can && next === 'need' ? smallestFor(can, Number.parseFloat(amount) * 1024, simulated)[0] : undefined
    if (next === 'need') onChange(best?.name ?? '')
  }
  if (flavors?.length === 0)
    return (
      <Notice tone="amber">
        The operator offers no shapes yet. Ask for one: they are made through the API.
      </Notice>
    )
  const shown = how === 'shape' ? sorted(flavors, refusal, simulated) : fits.slice(0, 3)
  const refused = how === 'shape' ? [...new Set(flavors?.map(refusal).filter(Boolean))] : []
  const never = shown?.some((f) => !refusal(f) && !inPool(f, simulated).served)
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-end gap-3">
        <Segmented
          label="How to choose"
          value={how}
          onChange={(v) => choose(v, need)}
          options={[
            { value: 'shape', label: 'By shape' },
            { value: 'need', label: 'By need' },
          ]}
        />
        {simulated && (
          <span className="self-center">
            <Tag title="Nodes and GPUs of this pool are simulated">sim</Tag>
          </span>
        )}
        {how === 'need' && (
          <span className="flex items-center gap-2 text-13 text-fg2">
            at least
            <TextField
              label="GPU memory needed, in GiB"
              hideLabel
              type="number"
              min={1}
              step={1}
              unit="GiB"
              className="w-28"
              value={need}
              onChange={(e) => choose('need', e.target.value)}
            />
            of GPU memory
          </span>
        )}
      </div>
      {how === 'need' && fits.length === 0 && (
        <Notice tone="amber">
          No shape that this pool can serve has {need || 'that'} GiB of GPU memory. Ask for less, or look at
          the shapes.
        </Notice>
      )}
      {how === 'need' && fits.length > 0 && (
        <p className="text-12 text-fg3">The smallest that has it is chosen; larger ones follow.</p>
      )}
      <div className="grid gap-1.5">
        {shown
          ? shown.map((f) => (
              <FlavorRow
                key={f.id}
                f={f}
                checked={f.name === value}
                onChange={onChange}
                refused={refusal(f)}
                refusedWord={refusedWord}
                {...inPool(f, simulated)}
              />
            ))
          : [0, 1, 2, 3].map((n) => <Bone key={n} className="h-9 w-full rounded-box" />)}
      </div>
      {refused.map((why) => (
        <p key={why} className="text-12 text-fg3">
          {why}.
        </p>
      ))}
      {never && (
        <p className="text-12 text-fg3">
          Never here: no node of its pool can ever take it, even an empty one.
        </p>
      )}
      {error && (
        <p role="alert" className="text-12 text-red">
          {error}
        </p>
      )}
    </div>
  )
}

const sorted = (
  flavors: readonly Flavor[] | undefined,
  refusal: (f: Flavor) => string | null,
  simulated: boolean,
) =>
  flavors &&
  [...flavors].sort(
    (a, b) =>
      Number(Boolean(refusal(a))) - Number(Boolean(refusal(b))) ||
      Number(inPool(b, simulated).served) - Number(inPool(a, simulated).served) ||
      (a.price_per_hour_micros ?? 0) - (b.price_per_hour_micros ?? 0) ||
      a.name.localeCompare(b.name),
  )

function FlavorRow({
  f,
  checked,
  onChange,
  refused,
  refusedWord,
  free,
  served,
}: {
  f: Flavor
  checked: boolean
  onChange: (name: string) => void
  refused: string | null
  refusedWord: string
  free: number
  served: boolean
}) {
  const figures = figureWords(f)
  return (
    <ChoiceCard
      name="flavor"
      value={f.name}
      checked={checked}
      onChange={onChange}
      reason={refused}
      className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 xl:min-h-9 xl:gap-x-3 xl:grid-cols-[188px_minmax(0,1fr)_64px_104px] xl:py-1"
    >
      <span className={cx('break-words xl:truncate', refused ? 'text-fg3' : 'font-medium')}>
        {f.gpu_count ? gpuWords(f) : f.name}
      </span>
      <span className={cx('text-right tabular-nums xl:order-3', refused ? 'text-fg3' : 'font-medium')}>
        {f.price_per_hour_micros === undefined ? (
          <span className="font-normal text-fg3">not priced</span>
        ) : (
          formatHourly(f.price_per_hour_micros, f.currency)
        )}
      </span>
      <span className="text-12 text-fg3 xl:order-2 xl:truncate">
        {figures && (
          <span title={f.gpu_sms ? 'SMs: streaming multiprocessors' : undefined}>{figures} · </span>
        )}
        {!f.gpu_count && 'No GPU · '}
        {hostWords(f)}
        {f.gpu_count > 0 && <span className="hidden sm:inline xl:hidden 2xl:inline"> · {f.name}</span>}
      </span>
      <span className="flex items-center gap-1.5 justify-self-end text-12 text-fg2 tabular-nums xl:order-4">
        {refused ? (
          <span className="text-fg3">{refusedWord}</span>
        ) : (
          <>
            <StatusShape tone={free > 0 ? 'green' : served ? 'amber' : 'red'} />
            {free > 0 ? `${free} free now` : served ? 'queues now' : 'never here'}
          </>
        )}
      </span>
    </ChoiceCard>
  )
}
