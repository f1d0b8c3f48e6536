import * as Stores from "../fixtures/Stores.ts"
import * as CancelAnywhere from "../runtime/engine/CancelAnywhere.ts"

Stores.run("memory", [CancelAnywhere.suite(100)])
