import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { gpuPreviewQuery, gpuUpdate } from '~/api/card.ts'
import type { GPU } from '~/api/fleet.ts'
import { ApiProblem, failureOf } from '~/api/problem.ts'
import { queryClient } from '~/api/query.ts'
import {
  bodyOf,
  type CardForm,
  cutByMIG,
  formOf,
  modeMeans,
  modeNames,
  modesOf,
  type Wish,
  wishOf,
  wishWords,
} from '~/lib/cardwish.ts'
import { sentence } from '~/lib/format.ts'
import { AskDialog } from '~/ui/AskDialog.tsx'
import { Button } from '~/ui/Button.tsx'
import { SelectField } from '~/ui/Field.tsx'
import { LayoutStrip } from '~/ui/LayoutStrip.tsx'
import { Segmented } from '~/ui/Segmented.tsx'
import { Notice } from '~/ui/State.tsx'
import { toast } from '~/ui/Toast.tsx'

/** GPUChange says what a card is to be, and shows what that makes of it, or who is in the way, before. */
export function GPUChange({ gpu: g, open, onClose }: { gpu: GPU; open: boolean; onClose: () => void }) {
  return open ? <Opened g={g} onClose={onClose} /> : null
}

function Opened({ g, onClose }: { g: GPU; onClose: () => void }) {
  const [form, setForm] = useState(() => formOf(g))
  const [seen, setSeen] = useState(g.revision)
  const set = (part: Partial<CardForm>) => setForm((f) => ({ ...f, ...part }))
  const body = bodyOf(form)
  const preview = useQuery(gpuPreviewQuery(g.id, seen, body))
  const change = useMutation({
    mutationFn: () => gpuUpdate(g.id, seen, body),
    onSuccess: (now) => {
      toast(
        'green',
        now.changing ? `GPU ${g.index} is being changed` : `GPU ${g.index} is so already`,
        now.changing ? 'Its node says when it is done' : undefined,
      )
      void queryClient.invalidateQueries({ queryKey: ['fleet'] })
      onClose()
    },
    onError: () => void queryClient.invalidateQueries({ queryKey: ['fleet'] }),
  })
  const refused = change.error ?? preview.error
  const other = otherWish(g, seen, refused)
  const would = preview.data?.wish
  const none = cutByMIG(form) && form.fixed && body.layout?.length === 0
  const same = JSON.stringify(body) === JSON.stringify(bodyOf(formOf(g)))
  return (
    <AskDialog
      open
      onClose={onClose}
      onConfirm={() => change.mutate()}
      wide
      title={`Change GPU ${g.index} of ${g.node}`}
      verb="Change GPU"
      busy={change.isPending}
      reason={
        other
          ? 'Somebody else changed it: decide first'
          : refused
            ? 'It can’t be changed so'
            : none
              ? 'Choose at least one slice'
              : same
                ? g.changing
                  ? 'It is on its way to that'
                  : 'It is so now'
                : null
      }
    >
      <div className="flex flex-col gap-4">
        {other ? (
          <Conflict
            theirs={other.wish}
            mine={wishOf(form, g.profiles)}
            onTheirs={onClose}
            onMine={() => {
              change.reset()
              setSeen(other.revision)
            }}
          />
        ) : (
          g.changing &&
          g.wish && (
            <Notice tone="amber">
              <p className="font-medium">Under way: {wishWords(g.wish)}</p>
              <p className="text-fg2">What you choose here replaces it.</p>
            </Notice>
          )
        )}
        <div>
          <Segmented
            label="Mode"
            options={modesOf(g).map((m) => ({ value: m, label: modeNames[m] }))}
            value={form.mode}
            onChange={(mode) => set({ mode })}
          />
          <p className="mt-2">{modeMeans[form.mode]}</p>
        </div>
        {form.mode === 'shared' && (
          <SelectField
            label="Shares"
            className="max-w-40"
            value={form.shares}
            onChange={(e) => set({ shares: Number(e.target.value) })}
          >
            {[2, 3, 4, 5, 6, 7, 8].map((n) => (
              <option key={n} value={n}>
                {n}
              </option>
            ))}
          </SelectField>
        )}
        {form.mode === 'vgpu' && (
          <SelectField
            label="Type"
            className="max-w-72"
            value={form.type}
            onChange={(e) => set({ type: e.target.value })}
          >
            {g.profiles.length > 0 && <option value="">On MIG slices</option>}
            {g.vgpu_types.map((t) => (
              <option key={t.id} value={t.name}>
                {t.name}
              </option>
            ))}
          </SelectField>
        )}
        {cutByMIG(form) && <Slices g={g} form={form} set={set} />}
        {would && would.layout.length > 0 && (
          <LayoutStrip
            cells={g.profiles.reduce((n, p) => Math.max(n, p.slots), 0)}
            label="What it would have"
            places={would.layout.map((p) => ({
              start: p.slot_start,
              end: p.slot_end,
              label: p.profile_name || p.profile,
              kind: 'fixed' as const,
            }))}
          />
        )}
        {refused && !other ? <Refusal error={refused} /> : null}
        <p className="text-12 text-fg3">
          Its node makes the change and reads it back; until then nothing new is placed on the card. Prices
          and flavors for other kinds of share stay as they are.
        </p>
      </div>
    </AskDialog>
  )
}

type Other = { wish: Wish | null; revision: number }

/** otherWish is what somebody else said of the card since this dialog showed it. */
function otherWish(g: GPU, seen: number, refused: unknown): Other | null {
  if (g.revision !== seen) return { wish: g.wish ?? null, revision: g.revision }
  if (!(refused instanceof ApiProblem) || refused.code !== 'card_changed') return null
  const figures = refused.problem.figures as { wish?: Wish | null; revision?: number } | undefined
  return { wish: figures?.wish ?? null, revision: figures?.revision ?? seen }
}

/** Conflict shows both wishes side by side, and lets a person choose. */
function Conflict({
  theirs,
  mine,
  onTheirs,
  onMine,
}: {
  theirs: Wish | null
  mine: Wish
  onTheirs: () => void
  onMine: () => void
}) {
  return (
    <Notice tone="amber">
      <div role="alert">
        <p className="font-medium">Somebody else changed this GPU meanwhile</p>
        <dl className="mt-1 grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 text-fg">
          <dt className="text-fg2">Theirs</dt>
          <dd>{theirs ? wishWords(theirs) : 'As it is'}</dd>
          <dt className="text-fg2">Yours</dt>
          <dd>{wishWords(mine)}</dd>
        </dl>
      </div>
      <div className="mt-2 flex flex-wrap gap-2">
        <Button small onClick={onTheirs}>
          Leave theirs
        </Button>
        <Button small onClick={onMine}>
          Go on with yours
        </Button>
      </div>
    </Notice>
  )
}

function Slices({ g, form, set }: { g: GPU; form: CardForm; set: (part: Partial<CardForm>) => void }) {
  return (
    <div>
      <Segmented
        label="Slices"
        options={[
          { value: 'free', label: 'Made as they are placed' },
          { value: 'fixed', label: 'Fixed slices' },
        ]}
        value={form.fixed ? 'fixed' : 'free'}
        onChange={(v) => set({ fixed: v === 'fixed' })}
      />
      {form.fixed && (
        <ul aria-label="Slices" className="mt-3 grid grid-cols-1 gap-x-6 gap-y-2 sm:grid-cols-2">
          {g.profiles.map((p) => {
            const n = form.counts[p.profile] ?? 0
            const put = (to: number) => set({ counts: { ...form.counts, [p.profile]: to } })
            return (
              <li key={p.profile} className="flex items-center justify-between gap-3">
                <span className="font-mono text-13 text-fg">{p.profile_name}</span>
                <span className="flex items-center gap-1.5">
                  <Button small reason={n === 0 ? 'None are left' : null} onClick={() => put(n - 1)}>
                    −<span className="sr-only"> one {p.profile_name} less</span>
                  </Button>
                  <output aria-label={p.profile_name} className="w-5 text-center text-fg tabular-nums">
                    {n}
                  </output>
                  <Button
                    small
                    reason={n >= p.max ? `At most ${p.max} fit on one card` : null}
                    onClick={() => put(n + 1)}
                  >
                    +<span className="sr-only"> one {p.profile_name} more</span>
                  </Button>
                </span>
              </li>
            )
          })}
        </ul>
      )}
    </div>
  )
}

type Holder = { id: string; name: string; organisation: string }

/** Refusal says why it can't be so, and who is in the way. */
function Refusal({ error }: { error: unknown }) {
  const failure = failureOf(error, 'change it')
  const holders =
    error instanceof ApiProblem ? ((error.problem.figures?.instances as Holder[] | undefined) ?? []) : []
  const wrong = error instanceof ApiProblem ? (error.problem.errors ?? []).map((e) => e.message) : []
  if (holders.length)
    return (
      <Notice tone="amber">
        <p className="font-medium">
          In the way: {holders.length === 1 ? 'one instance holds' : `${holders.length} instances hold`} some
          of it
        </p>
        <ul className="mt-1 max-h-32 overflow-y-auto">
          {holders.map((h) => (
            <li key={h.id}>
              {h.name} <span className="text-fg3">of {h.organisation}</span>
            </li>
          ))}
        </ul>
        {failure.hint && <p className="mt-1 text-fg2">{failure.hint}.</p>}
      </Notice>
    )
  return <Notice tone="red">{sentence(wrong.length ? wrong.join('; ') : failure.message)}</Notice>
}
