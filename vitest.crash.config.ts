// The long proof by faults: `npm run test:crash`.
import { defineConfig } from "vitest/config"
import base from "./vitest.config.ts"

export default defineConfig({ ...base, test: { ...base.test, include: ["test/crash/**/*.crash.ts"] } })
