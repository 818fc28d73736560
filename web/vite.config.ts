import { fileURLToPath } from 'node:url'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'
import { docs } from './docs.plugin.ts'

const server = process.env.TENON_URL ?? 'http://127.0.0.1:7480'
const proxy = { target: server, ws: true }

export default defineConfig({
  plugins: [docs(), react(), tailwindcss()],
  resolve: { alias: { '~': fileURLToPath(new URL('./src', import.meta.url)) } },
  build: { target: 'es2022', assetsInlineLimit: 0, chunkSizeWarningLimit: 600 },
  server: { proxy: { '/v1': proxy, '/docs/api': proxy, '/openapi.yaml': proxy } },
  test: { environment: 'happy-dom', include: ['src/**/*.test.{ts,tsx}', 'docs.plugin.test.ts'] },
})
