/** What a part of a card is called: MIG cuts memory slices, sharing makes shares, a vGPU type places. */
export type PartName = 'slice' | 'share' | 'place'

/** partName goes by the mode and by what is counted: a geometry (mig8, vgpu4, share2) or a profile of it. */
export function partName(mode: string, of: string): PartName {
  if (mode === 'shared') return 'share'
  return mode === 'vgpu' && of.startsWith('vgpu') ? 'place' : 'slice'
}

/** placeWords says where on a card something is: "slices 0 to 3", "share 1", "place 2". */
export function placeWords(name: PartName, start: number, end: number): string {
  return end - start === 1 ? `${name} ${start}` : `${name}s ${start} to ${end - 1}`
}

/** heldWords is placeWords for a hold; a whole card has no parts. */
export const heldWords = (h: { mode: string; profile: string; slot_start: number; slot_end: number }) =>
  h.profile === 'whole' ? 'all of it' : placeWords(partName(h.mode, h.profile), h.slot_start, h.slot_end)

/** stripCells is how many equal cells a card is drawn with for whoever holds some of it and sees no more. */
export function stripCells(h: { model?: string; profile_name: string }): number {
  const even = /^1\/(\d+) /.exec(h.profile_name)
  return even ? Number(even[1]) : h.model === 'a30' ? 4 : 8
}

/** startWords lists where one could begin: "at slice 4", "in places 0, 2 and 3". */
export function startWords(name: PartName, starts: readonly number[]): string {
  const list =
    starts.length > 1 ? `${starts.slice(0, -1).join(', ')} or ${starts.at(-1)}` : String(starts[0] ?? '')
  return `${name === 'slice' ? 'at' : 'in'} ${name} ${list}`
}
