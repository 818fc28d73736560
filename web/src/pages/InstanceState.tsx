import { useState } from 'react'
import type { Instance } from '~/api/instance.ts'
import { stateWord, toneOf } from '~/lib/instancestate.ts'
import { StatusPill } from '~/ui/StatusPill.tsx'

/** InstancePill is the state in a shape and a word, with the progress of the present step when known. */
export function InstancePill({ instance, live }: { instance: Instance; live?: boolean }) {
  const [first] = useState(instance.state)
  const step =
    instance.state === 'starting' && instance.progress !== undefined ? ` ${instance.progress} %` : ''
  return (
    <StatusPill tone={toneOf(instance.state)} live={live}>
      <span key={instance.state} className={instance.state === first ? undefined : 'changed rounded-[3px]'}>
        {stateWord(instance.state)}
        {step}
      </span>
    </StatusPill>
  )
}
