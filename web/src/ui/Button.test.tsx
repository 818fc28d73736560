import { cleanup, fireEvent, render, screen } from '@testing-library/react'
import { afterEach, expect, test, vi } from 'vitest'
import { Button } from './Button.tsx'

afterEach(cleanup)

test('a button that is off says why, can be reached, and does nothing', () => {
  const onClick = vi.fn()
  render(
    <Button reason="It is stopped: there is nothing to stop" onClick={onClick}>
      Stop
    </Button>,
  )
  const button = screen.getByRole('button', { name: 'Stop' })
  fireEvent.click(button)
  expect(onClick).not.toHaveBeenCalled()
  expect(button.getAttribute('aria-disabled')).toBe('true')
  expect(button.getAttribute('aria-description')).toBe('It is stopped: there is nothing to stop')
  button.focus()
  expect(document.activeElement).toBe(button)
})
