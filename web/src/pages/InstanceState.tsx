import { useState } from 'react'
import type { Instance } from '~/api/instance.ts'
import { shownState } from '~/lib/instancestate.ts'
import { StatusPill } from '~/ui/StatusPill.tsx'

/** InstancePill is the state in a shape and a word, with the progress of the present step when known. */
export function InstancePill({ instance, live }: { instance: Instance; live?: boolean }) {
  const { tone, word } = shownState(instance)
  const [first] = useState(word)
  const step =
    instance.state === 'starting' && instance.progress !== undefined ? ` ${instance.progress} %` : ''
  return (
    <StatusPill tone={tone} live={live}>
      <span key={word} className={word === first ? undefined : 'changed rounded-[3px]'}>
        {word}
        {step}
      </span>
    </StatusPill>
  )
}
