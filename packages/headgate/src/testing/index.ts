export { type FakeClock, fakeClock } from './fake-clock.ts'
export {
  describeFault,
  type Fault,
  type FleetOptions,
  type Flow,
  fleetOf,
  type ModeName,
  modeNames,
  type Protocol,
  printReport,
  printTrace,
  printViolation,
  protocols,
  type Report,
  type Scenario,
  type Shrunk,
  type SimulatedRequest,
  scenarioOf,
  shrink,
  simulate,
  type Violation,
} from './simulation/index.ts'
export { type MakeStore, type StoreTest, storeSuite } from './store-suite.ts'
