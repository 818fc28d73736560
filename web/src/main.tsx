import { Tooltip } from '@base-ui/react/tooltip'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from '~/api/query.ts'
import { router } from '~/routes/router.tsx'
import { Toasts } from '~/ui/Toast.tsx'
import '~/ui/ui.css'

const root = document.getElementById('root')
if (!root) throw new Error('index.html has no #root')

createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <Tooltip.Provider>
        <RouterProvider router={router} />
        <Toasts />
      </Tooltip.Provider>
    </QueryClientProvider>
  </StrictMode>,
)
