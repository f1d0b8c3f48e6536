import * as Stores from "../fixtures/Stores.ts"
import * as CancelAnywhere from "./engine/CancelAnywhere.ts"
import { suites } from "./engine/Suites.ts"

Stores.run("PostgreSQL", [...suites, CancelAnywhere.suite(12)])
