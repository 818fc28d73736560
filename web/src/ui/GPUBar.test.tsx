import { cleanup, fireEvent, render, screen } from '@testing-library/react'
import { afterEach, expect, test } from 'vitest'
import type { Board } from '~/lib/gpubar.ts'
import { GPUBar } from './GPUBar.tsx'

afterEach(cleanup)

const board: Board = {
  name: 'GPU 1',
  model: 'H100 80 GB',
  geometry: 'mig8',
  mode: 'mig',
  state: 'ready',
  simulated: true,
  holds: [
    {
      key: 'a',
      start: 0,
      end: 2,
      profile: '2g',
      instance: 'train-1',
      profileName: '2g.20gb',
      tenant: 'acme',
      percent: 40,
    },
  ],
}

test('a screen reader hears what the picture shows', () => {
  render(<GPUBar board={board} size={8} />)
  expect(screen.getByRole('img').getAttribute('aria-label')).toBe(
    'GPU 1, H100 80 GB; 2 of 8 slices held (train-1 2g.20gb); simulated.',
  )
})

test('arrows walk the cells, and one cell at a time is in the tab order', () => {
  render(<GPUBar board={board} />)
  const cells = screen.getAllByRole('button')
  expect(cells).toHaveLength(7)
  expect(cells.map((c) => c.tabIndex)).toEqual([0, -1, -1, -1, -1, -1, -1])
  cells[0]?.focus()
  fireEvent.keyDown(cells[0] as HTMLElement, { key: 'ArrowRight' }) // there are seven
  expect(document.activeElement?.getAttribute('aria-label')).toBe('Free, slice 2')
  fireEvent.keyDown(document.activeElement as HTMLElement, { key: 'Home' }) // a cell has the focus
  expect(document.activeElement?.getAttribute('aria-label')).toBe('train-1 2g.20gb, of acme, 40 % busy')
})
