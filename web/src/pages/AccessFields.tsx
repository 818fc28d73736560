import { useRef } from 'react'
import { parseKeys } from '~/lib/createform.ts'
import { recall } from '~/lib/prefs.ts'
import { Button } from '~/ui/Button.tsx'
import { Labelled, TextArea } from '~/ui/Field.tsx'
import { Icon } from '~/ui/Icon.tsx'

/** Under this name the browser remembers the keys used last. */
export const keysPref = 'ssh-keys'
const largest = 16 * 1024

/** SSHKeysField takes public keys: pasted, from a file, or the ones used last here. */
export function SSHKeysField({
  value,
  onChange,
  error,
}: {
  value: string
  onChange: (keys: string) => void
  error: string | null
}) {
  const file = useRef<HTMLInputElement>(null)
  const last = recall(keysPref) ?? ''
  const read = async (list: FileList | null) => {
    const texts = await Promise.all([...(list ?? [])].map((f) => f.slice(0, largest).text()))
    onChange([value.trim(), ...texts.map((t) => t.trim())].filter(Boolean).join('\n'))
  }
  const { keys } = parseKeys(value)
  return (
    <div className="flex flex-col gap-2">
      <TextArea
        label="SSH keys"
        placeholder="ssh-ed25519 AAAA… me@laptop"
        value={value}
        rows={3}
        error={error}
        hint="Public keys, one a line. They may log in after the first boot. Without one, only the console shows the machine."
        onChange={(e) => onChange(e.target.value)}
      />
      <div className="flex flex-wrap items-center gap-2">
        <Button small icon="plus" onClick={() => file.current?.click()}>
          From a .pub file
        </Button>
        {last && last !== value && (
          <Button small look="quiet" onClick={() => onChange(last)}>
            Use the last one
          </Button>
        )}
        {keys.length > 0 && (
          <span className="text-12 text-fg3">
            {keys.map((k) => k.split(/\s+/).slice(2).join(' ') || `${k.split(/\s+/)[0]} key`).join(', ')}
          </span>
        )}
        <Labelled label="A .pub file" hideLabel className="sr-only">
          {(a) => (
            <input
              {...a}
              ref={file}
              type="file"
              accept=".pub,text/plain"
              multiple
              tabIndex={-1}
              onChange={(e) => {
                void read(e.target.files)
                e.target.value = ''
              }}
            />
          )}
        </Labelled>
      </div>
    </div>
  )
}

/** UserDataField is closed until it is wanted. */
export function UserDataField({
  value,
  onChange,
  error,
}: {
  value: string
  onChange: (text: string) => void
  error: string | null
}) {
  return (
    <details
      className="group rounded-box border border-line bg-raised"
      open={Boolean(value || error) || undefined}
    >
      <summary className="flex cursor-pointer list-none items-center gap-2 rounded-box px-3 py-2 text-13 font-medium hover:bg-sunken [&::-webkit-details-marker]:hidden">
        <span className="quick inline-flex group-open:rotate-90">
          <Icon name="right" size={14} />
        </span>
        User data
        <span className="font-normal text-fg3">for cloud-init, at the first boot</span>
      </summary>
      <div className="border-t border-line p-3">
        <TextArea
          label="User data"
          hideLabel
          rows={7}
          placeholder={'#cloud-config\npackages:\n  - git'}
          value={value}
          error={error ?? (value.length > 65_536 ? 'At most 64 KiB' : null)}
          hint="Passed on as it is. Kept sealed and never shown again."
          onChange={(e) => onChange(e.target.value)}
        />
      </div>
    </details>
  )
}
