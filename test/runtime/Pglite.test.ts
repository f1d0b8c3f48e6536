import * as Stores from "../fixtures/Stores.ts"
import { suites } from "./engine/Suites.ts"

Stores.run("PGlite", suites)
