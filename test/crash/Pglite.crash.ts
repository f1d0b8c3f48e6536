import { places } from "@turnstep/core/CrashPoint"
import * as Matrix from "./Matrix.ts"

Matrix.census("PGlite")
Matrix.suite("PGlite", places, Matrix.passings)
