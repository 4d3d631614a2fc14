// What an app in a shop sees of it.
import { fakeClock } from 'headgate/testing'
import { seen } from '../seen.ts'
import { graphqlApi } from './graphql.ts'
import { rest } from './rest.ts'

const clock = fakeClock()
const call = rest({ clock })
const get = () =>
  call(new Request('http://localhost/products.json', { headers: { 'X-Shopify-Access-Token': 'shop-1' } }))
await seen('a call', await get())
for (let i = 2; i <= 40; i++) await get()
await seen('the 41st at once', await get())
clock.advance(10_000)
await seen('ten seconds later', await get())

const variants = [{ sku: 's1' }, { sku: 's2' }]
const ask = graphqlApi({ products: [{ title: 'shirt', variants }] }, { clock })
const query = (first: number) => `{ products(first: ${first}) { title variants(first: 10) { sku } } }`
const show = async (first: number) => {
  const { errors, extensions } = (await ask('shop-1', query(first))) as { errors?: object; extensions?: object }
  console.log(`${first} products:`, JSON.stringify(errors ?? extensions))
}
await show(50)
await show(100)
