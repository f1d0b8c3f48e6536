// The long proof by faults: `npm run test:crash`.
import { defineConfig, mergeConfig } from "vitest/config"
import base from "./vitest.config.ts"

export default mergeConfig(base, defineConfig({ test: { include: ["test/crash/**/*.crash.ts"] } }))
