export { describeFault, type Fault } from './faults.ts'
export { modeNames } from './modes.ts'
export { printReport, printTrace, printViolation } from './print.ts'
export type { Report, Violation } from './report.ts'
export {
  BEGIN_US,
  type FleetOptions,
  fleetOf,
  type ModeName,
  type Protocol,
  protocols,
  type Scenario,
  scenarioOf,
} from './scenario.ts'
export { type Shrunk, shrink } from './shrink.ts'
export type { Flow, SimulatedRequest } from './traffic.ts'
export { simulate } from './world.ts'
