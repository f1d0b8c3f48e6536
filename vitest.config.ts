import { defineConfig } from "vitest/config"

export default defineConfig({
  resolve: { conditions: ["@turnstep/source"] },
  ssr: { resolve: { conditions: ["@turnstep/source"] } },
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/fixtures/globalSetup.ts"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000
  }
})
