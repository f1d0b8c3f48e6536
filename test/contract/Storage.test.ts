/** The stores of this house keep the contracts of storage. */
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as Databases from "../sql/Databases.ts"
import * as AdmitContract from "./AdmitContract.ts"
import * as ClaimContract from "./ClaimContract.ts"
import * as JournalContract from "./JournalContract.ts"

const stores = [
  { name: "memory", layer: MemoryStore.layer },
  ...Databases.migrated.map(({ layer, name }) => ({ name, layer: Databases.storage(layer) }))
]

for (const { layer, name } of stores) {
  JournalContract.suite(name, layer)
  AdmitContract.suite(name, layer)
  ClaimContract.suite(name, layer)
}
