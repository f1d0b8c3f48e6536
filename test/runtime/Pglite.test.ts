import * as Stores from "../fixtures/Stores.ts"
import * as CancelAnywhere from "./engine/CancelAnywhere.ts"
import { suites } from "./engine/Suites.ts"

Stores.run("PGlite", [...suites, CancelAnywhere.suite(6)])
