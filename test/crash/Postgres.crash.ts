import { places } from "@turnstep/core/CrashPoint"
import * as Matrix from "./Matrix.ts"

Matrix.suite("PostgreSQL", places, Number(process.env["CRASH_PASSINGS"] ?? 2))
