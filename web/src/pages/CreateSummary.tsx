import { useState } from 'react'
import type { DryRunResult } from '~/api/instance.ts'
import type { Flavor } from '~/api/offer.ts'
import type { ApiProblem } from '~/api/problem.ts'
import { type CreateForm, dataKept, toCLI, toCurl, toYAML } from '~/lib/createform.ts'
import { formatHourly, formatMiB, formatMonthly, plural, sentence } from '~/lib/format.ts'
import { kindWord } from '~/lib/instancestate.ts'
import { figuresOf, gpuWords } from '~/lib/shape.ts'
import { waitingLines } from '~/lib/waiting.ts'
import { Button } from '~/ui/Button.tsx'
import { CodeBlock } from '~/ui/CopyButton.tsx'
import { cx } from '~/ui/cx.ts'
import { Dialog } from '~/ui/Dialog.tsx'
import { Facts, Kbd } from '~/ui/Layout.tsx'
import { type Failure, Notice } from '~/ui/State.tsx'
import { StatusShape, Tag } from '~/ui/StatusPill.tsx'

/** CreateSummary stays in view: what it will be, what it costs, whether it starts now, and why not. */
export function CreateSummary({
  form,
  project,
  flavor,
  dry,
  refused,
  fresh,
  missing,
  failure,
  failureLines,
  busy,
  disk,
  simulated,
}: {
  form: CreateForm
  project: string
  flavor: Flavor | undefined
  dry: DryRunResult | undefined
  refused: ApiProblem | null
  fresh: boolean
  missing: string | null
  failure: Failure | null
  failureLines: readonly string[]
  busy: boolean
  /** What its kept disk costs an hour, when it has one that is priced. */
  disk: number | undefined
  simulated: boolean
}) {
  const [code, setCode] = useState(false)
  const alone = flavor?.price_per_hour_micros
  const figures = flavor && figuresOf(flavor)
  const price = dry?.price_per_hour_micros ?? (alone === undefined ? undefined : alone + (disk ?? 0))
  const currency = dry?.currency ?? flavor?.currency
  const reason = missing ?? (refused && refused.status > 0 ? refused.message : null)
  return (
    <>
      <aside
        aria-label="Summary"
        className="min-w-0 rounded-box border border-line bg-raised lg:sticky lg:top-5"
      >
        <div className="border-b border-line px-4 py-3">
          <p className="truncate text-14 font-semibold">{form.name || 'Unnamed'}</p>
          <p className="truncate text-12 text-fg3">Project {project}</p>
        </div>
        <div className="flex flex-col gap-4 p-4">
          <Facts
            items={[
              ['Kind', kindWord[form.kind]],
              ['Image', form.image || 'Not chosen'],
              ['GPU', flavor ? gpuWords(flavor) : 'Not chosen'],
              Boolean(figures?.memory) && ['GPU memory', figures?.memory],
              Boolean(figures?.sms) && ['Compute', figures?.sms],
              flavor && ['Shape', flavor.name],
              flavor && ['Host', `${flavor.vcpu} vCPU · ${formatMiB(flavor.memory_mib)}`],
              flavor && [
                'Disk',
                `${formatMiB(flavor.disk_mib)}, ${dataKept(form.kind) ? 'kept until it is deleted' : 'gone when it stops'}`,
              ],
              simulated && ['Pool', <SimPool key="pool" name={form.pool} />],
            ]}
          />
          {flavor && (
            <div>
              {price === undefined ? (
                <p className="text-13 text-fg2">A price is missing, so it is not charged.</p>
              ) : (
                <>
                  <p className="text-20 font-semibold tracking-tight">{formatHourly(price, currency)}</p>
                  <p className="text-12 text-fg3">
                    while it runs, by the second · about {formatMonthly(price, currency)} a month
                  </p>
                  {dataKept(form.kind) && (
                    <dl className="mt-2 grid grid-cols-[auto_auto] justify-between gap-x-4 gap-y-0.5 text-12 text-fg2 tabular-nums">
                      <dt>
                        {form.kind === 'notebook'
                          ? 'While stopped'
                          : form.onStop === 'hold'
                            ? 'While stopped and held'
                            : flavor.gpu_count > 0
                              ? 'While stopped, GPU released'
                              : 'While stopped'}
                      </dt>
                      <dd>
                        {form.kind === 'vm' && form.onStop === 'hold'
                          ? formatHourly(price, currency)
                          : disk === undefined
                            ? 'no charge'
                            : formatHourly(disk, currency)}
                      </dd>
                      {disk !== undefined && (
                        <>
                          <dt>Of it, the disk</dt>
                          <dd>{formatHourly(disk, currency)}</dd>
                        </>
                      )}
                    </dl>
                  )}
                </>
              )}
            </div>
          )}
          <div aria-live="polite" className={cx('min-h-5 text-13', !fresh && 'opacity-60')}>
            {refused ? (
              <Refusal p={refused} />
            ) : dry ? (
              <Outcome dry={dry} gpus={flavor?.gpu_count ?? 0} />
            ) : flavor && form.image ? (
              <span className="text-fg3">Asking for a place…</span>
            ) : null}
          </div>
          {failure && (
            <Notice tone="red" requestId={failure.requestId}>
              <p className="font-medium">{failure.title}</p>
              {failureLines.length ? failureLines.map((l) => <p key={l}>{l}</p>) : <p>{failure.message}</p>}
              {failure.hint && <p className="text-fg2">{failure.hint}</p>}
            </Notice>
          )}
          <Button type="submit" look="primary" busy={busy} reason={reason} className="w-full max-lg:hidden">
            Create <Kbd>{/Mac/.test(navigator.userAgent) ? '⌘↵' : 'Ctrl ↵'}</Kbd>
          </Button>
          {missing && <p className="-mt-2 text-12 text-fg3 max-lg:hidden">{missing}.</p>}
          <button type="button" className="link -mt-1 self-start text-12" onClick={() => setCode(true)}>
            The same as a command or a request
          </button>
        </div>
        <Dialog open={code} onClose={() => setCode(false)} title="The same, without the console" wide>
          <div className="flex flex-col gap-4">
            <div>
              <h3 className="mb-1.5 font-medium text-fg">Command line</h3>
              <CodeBlock label="Command" text={toCLI(form, project)} />
            </div>
            <div>
              <h3 className="mb-1.5 font-medium text-fg">curl</h3>
              <CodeBlock label="Request" text={toCurl(form, project, location.origin)} />
            </div>
            <div>
              <h3 className="mb-1.5 font-medium text-fg">YAML</h3>
              <CodeBlock label="File" text={toYAML(form)} />
            </div>
          </div>
        </Dialog>
      </aside>
      <div className="sticky bottom-0 z-20 -mx-4 flex items-center gap-3 border-t border-line-strong bg-page px-4 pt-2.5 pb-[max(10px,env(safe-area-inset-bottom))] md:-mx-6 md:px-6 lg:hidden">
        <div className="min-w-0 flex-1">
          <p className="text-14 leading-5 font-semibold tabular-nums">
            {flavor && price !== undefined
              ? formatHourly(price, currency)
              : flavor
                ? 'Not priced'
                : 'No shape chosen'}
          </p>
          <p className="flex items-center gap-1.5 text-12 text-fg2">
            {reason ? (
              <span className="truncate">{reason}</span>
            ) : dry ? (
              <>
                <StatusShape tone={dry.starts_now ? 'green' : dry.never_fits ? 'red' : 'amber'} />
                {dry.starts_now ? 'Starts now' : dry.never_fits ? 'Could never start' : 'Waits in the queue'}
                {simulated && <Tag title="Nothing really runs there">sim</Tag>}
              </>
            ) : (
              'Asking for a place…'
            )}
          </p>
        </div>
        <Button type="submit" look="primary" busy={busy} reason={reason} className="min-w-28">
          Create
        </Button>
      </div>
    </>
  )
}

function SimPool({ name }: { name: string }) {
  return (
    <span className="inline-flex items-center gap-2">
      {name} <Tag title="Nothing really runs there">sim</Tag>
    </span>
  )
}

function Outcome({ dry, gpus }: { dry: DryRunResult; gpus: number }) {
  if (dry.starts_now)
    return (
      <p className="flex items-center gap-2">
        <StatusShape tone="green" />
        <span>
          Starts now{gpus > 0 && <span className="text-fg3"> · {dry.free_now} free</span>}
          {dry.simulated && gpus > 0 && <span className="text-fg3"> · simulated GPU</span>}
        </span>
      </p>
    )
  return (
    <div className="flex gap-2">
      <span className="pt-[5px]">
        <StatusShape tone={dry.never_fits ? 'red' : 'amber'} />
      </span>
      <div className="min-w-0">
        <p>
          {dry.never_fits
            ? 'No node of its pool can ever take it: it would wait for ever'
            : `Waits in the queue${dry.ahead > 0 ? ` behind ${plural(dry.ahead, 'instance')}` : ''}`}
        </p>
        {waitingLines(dry.reasons ?? []).map((l) => (
          <p key={l.reason} className={cx('text-12', l.help ? 'text-fg2' : 'text-fg3')}>
            {l.text}.{l.help && !dry.never_fits && ` ${l.help}`}
          </p>
        ))}
      </div>
    </div>
  )
}

/** Refusal says beforehand what a create would answer. */
function Refusal({ p }: { p: ApiProblem }) {
  const { limit, used, asked, hint, errors } = p.problem
  return (
    <div className="flex gap-2">
      <span className="pt-[5px]">
        <StatusShape tone={p.status === 0 ? 'amber' : 'red'} />
      </span>
      <div className="min-w-0 break-words">
        <p className="font-medium">
          {p.status === 0 ? 'Price and place are not known now' : 'It would be refused'}
        </p>
        <p className="text-fg2">{p.status === 0 ? 'The control plane did not answer.' : p.message}</p>
        {errors?.map((e) => (
          <p key={`${e.location} ${e.message}`} className="text-12 text-fg2">
            {e.location.replace(/^body\./, '')}: {e.message}
          </p>
        ))}
        {limit !== undefined && used !== undefined && (
          <p className="text-12 text-fg2">
            Limit {limit}, used {used}, asked {asked}
          </p>
        )}
        {hint && <p className="text-12 text-fg2">{sentence(hint)}</p>}
      </div>
    </div>
  )
}
