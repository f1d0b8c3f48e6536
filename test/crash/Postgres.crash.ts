import { places } from "@turnstep/core/CrashPoint"
import * as Matrix from "./Matrix.ts"

Matrix.census("PostgreSQL")
Matrix.suite("PostgreSQL", places, Matrix.passings)
