export { type FakeClock, fakeClock } from './fake-clock.ts'
export { type MakeStore, type StoreTest, storeSuite } from './store-suite.ts'
